package record

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MergeAttributes applies patch to target as a JSON Merge Patch (RFC 7396):
// members that are null go, objects are merged, everything else replaces what
// was there. Both must be JSON objects. What patch does not touch keeps its
// bytes and its place; new members come last, in the patch's order. So applying
// a patch once more changes nothing. It fails when one of them is no object.
func MergeAttributes(target, patch Attributes) (Attributes, error) {
	had, err := members(target)
	if err != nil {
		return nil, fmt.Errorf("merge into attributes: %w", err)
	}
	changes, err := members(patch)
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	at := make(map[string]int, len(had))
	for i, m := range had {
		at[m.name] = i
	}
	for _, change := range changes {
		i, known := at[change.name]
		switch {
		case string(change.value) == "null":
			if known {
				had[i].value = nil
			}
			continue
		case !known:
			i = len(had)
			at[change.name] = i
			had = append(had, member{name: change.name, text: change.text})
		}
		if change.value[0] != '{' {
			had[i].value = change.value
			continue
		}
		// A member that is no object counts as an empty one; the patch's nulls
		// must not survive in it.
		below := had[i].value
		if len(below) == 0 || below[0] != '{' {
			below = Attributes("{}")
		}
		if had[i].value, err = MergeAttributes(below, change.value); err != nil {
			return nil, err
		}
	}
	return object(had), nil
}

// member is a name and a value of a JSON object.
type member struct {
	name  string // decoded
	text  []byte // the name as it is written
	value json.RawMessage
}

// members are those of a JSON object, in their order.
func members(o Attributes) (all []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(o))
	if open, err := dec.Token(); err != nil {
		return nil, err
	} else if open != json.Delim('{') {
		return nil, fmt.Errorf("%v is not the beginning of an object", open)
	}
	for dec.More() {
		start := dec.InputOffset()
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{text: o[start:dec.InputOffset()]}
		m.text = m.text[bytes.IndexByte(m.text, '"'):] // without the comma before it
		m.name, _ = name.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return all, nil
}

// object writes members that have a value.
func object(all []member) Attributes {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range all {
		if m.value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(m.text)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
