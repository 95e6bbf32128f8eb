package record

import "fmt"

// MergeAttributes applies patch to target as a JSON Merge Patch (RFC 7396): it removes members
// that are null in patch, merges objects and replaces other values. Members that are not in
// patch keep their bytes and position; new members follow in the order of patch. Applying the
// patch again changes nothing. MergeAttributes fails if target or patch is not a JSON object
// (see Pairs). It reads each of them once, however deeply they are nested.
func MergeAttributes(target, patch Attributes) (Attributes, error) {
	members, err := newReader(target).pairs(true)
	if err != nil {
		return nil, fmt.Errorf("merge into attributes: %w", err)
	}
	changes, err := newReader(patch).pairs(true)
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	return appendObject(make([]byte, 0, len(target)+len(patch)), merge(members, changes)), nil
}

// merge is MergePatch of RFC 7396, section 2, for members that reader.pairs(true) has
// returned. It marks members as removed by setting Quoted to nil.
func merge(target, patch []Pair) []Pair {
	at := make(map[string]int, len(target))
	for i, m := range target {
		at[m.Name] = i
	}
	for _, change := range patch {
		i, exists := at[change.Name]
		if string(change.Value) == "null" {
			if exists {
				target[i].Quoted = nil
			}
			continue
		}
		if !exists {
			i = len(target)
			target = append(target, Pair{Name: change.Name, Quoted: change.Quoted})
		}
		m := &target[i]
		m.Value, m.pairs = change.Value, merge(m.pairs, change.pairs)
	}
	return target
}

func appendObject(b []byte, members []Pair) []byte {
	b = append(b, '{')
	for _, m := range members {
		if m.Quoted == nil {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(b, m.Quoted...), ':')
		if m.Value == nil {
			b = appendObject(b, m.pairs)
		} else {
			b = append(b, m.Value...)
		}
	}
	return append(b, '}')
}
