package record

import (
	"bytes"
	"fmt"
)

// MergeAttributes applies patch to target as a JSON Merge Patch (RFC 7396): it
// removes members that are null in patch, merges objects and replaces everything
// else. What patch does not name keeps its bytes and its place; new members come
// last, in the patch's order. Applying the same patch again changes nothing. It
// fails if target or patch is not a JSON object (see Members).
func MergeAttributes(target, patch Attributes) (Attributes, error) {
	had, err := Members(target)
	if err != nil {
		return nil, fmt.Errorf("merge into attributes: %w", err)
	}
	changes, err := Members(patch)
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	at := make(map[string]int, len(had))
	for i, m := range had {
		at[m.Name] = i
	}
	for _, change := range changes {
		i, known := at[change.Name]
		switch {
		case string(change.Value) == "null":
			if known {
				had[i].Value = nil
			}
			continue
		case !known:
			i = len(had)
			at[change.Name] = i
			had = append(had, Member{Name: change.Name, Quoted: change.Quoted})
		}
		if change.Value[0] != '{' {
			had[i].Value = change.Value
			continue
		}
		// Merging into anything but an object starts from an empty one, so that
		// the patch's nulls do not become values.
		below := had[i].Value
		if len(below) == 0 || below[0] != '{' {
			below = Attributes("{}")
		}
		if had[i].Value, err = MergeAttributes(below, change.Value); err != nil {
			return nil, err
		}
	}
	return object(had), nil
}

// object returns the JSON object of the members that have a value.
func object(all []Member) Attributes {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range all {
		if m.Value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(m.Quoted)
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
