package record

import "fmt"

// MergeAttributes applies patch to target as a JSON Merge Patch (RFC 7396). It removes
// the members that are null in patch, merges objects and replaces all other values.
// Members that are not in patch keep their bytes and their position. New members follow
// in the order of patch. Applying the same patch again changes nothing.
// MergeAttributes returns an error if target or patch is not a JSON object (see Members).
// It reads target and patch only once, no matter how deeply they are nested.
func MergeAttributes(target, patch Attributes) (Attributes, error) {
	members, err := readMembers(target, true)
	if err != nil {
		return nil, fmt.Errorf("merge into attributes: %w", err)
	}
	changes, err := readMembers(patch, true)
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	return appendObject(make([]byte, 0, len(target)+len(patch)), merge(members, changes)), nil
}

// merge implements the function MergePatch of RFC 7396, section 2. Its arguments are
// results of readMembers, called with deep = true. In members that it removes, merge sets
// Quoted to nil.
func merge(target, patch []Member) []Member {
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
			target = append(target, Member{Name: change.Name, Quoted: change.Quoted})
		}
		m := &target[i]
		m.Value, m.members = change.Value, merge(m.members, change.members)
	}
	return target
}

// appendObject appends the JSON object of members to b.
func appendObject(b []byte, members []Member) []byte {
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
			b = appendObject(b, m.members)
		} else {
			b = append(b, m.Value...)
		}
	}
	return append(b, '}')
}
