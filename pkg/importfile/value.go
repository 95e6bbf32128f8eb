package importfile

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// ValueType is the type that the values of an attribute have.
type ValueType string

const (
	Text    ValueType = "text"
	Number  ValueType = "number"  // as in JSON: no leading zero, no separator of thousands
	Boolean ValueType = "boolean" // true or false, in any case
	JSON    ValueType = "json"    // each value by itself, as in an export: unquoted JSON, or else text
	Auto    ValueType = "auto"    // one type for the whole column, decided by all its values; in JSON files, the type that each value has
)

var valueTypes = []ValueType{Text, Number, Boolean, JSON, Auto}

// ofCell returns the value of a cell as JSON, or nil for no value.
func (t ValueType) ofCell(c cell) ([]byte, error) {
	text := strings.TrimSpace(c.text)
	switch {
	case c.text == "" && !c.quoted:
		return nil, nil
	case t == Text:
		return quote(c.text), nil
	case t != Number && t != Boolean:
		return recordfile.AppendValue(nil, c.text, c.quoted), nil
	case text == "":
		return nil, nil
	case text == "null" && !c.quoted:
		return []byte(text), nil
	}
	return t.ofText(text)
}

// ofText returns a number or a truth value.
func (t ValueType) ofText(text string) ([]byte, error) {
	if t == Number && recordfile.JSONKind(text) == '0' {
		return []byte(text), nil
	}
	if lower := strings.ToLower(text); t == Boolean && (lower == "true" || lower == "false") {
		return []byte(lower), nil
	}
	if t == Boolean {
		return nil, fmt.Errorf("%q is not true or false", record.Shorten(text))
	}
	return nil, fmt.Errorf("%q is not a number as in JSON, such as 6718 or -0.5", record.Shorten(text))
}

// ofJSON converts a JSON value. It returns nil for an empty text that is no number or truth value.
func (t ValueType) ofJSON(value []byte) ([]byte, error) {
	kind := jsontext.Value(value).Kind()
	text, err := jsontext.AppendUnquote(nil, value)
	switch {
	case kind == 'n' || t == Auto || t == "":
		return value, nil
	case kind != '"' && t == Text:
		return quote(string(value)), nil
	case kind == '"' && err != nil, t == Text, kind != '"' && t == JSON:
		return value, nil
	case t == JSON:
		if jsontext.Value(text).IsValid() {
			return text, nil
		}
		return value, nil
	case kind != '"':
		return t.ofText(string(value))
	case strings.TrimSpace(string(text)) == "":
		return nil, nil
	}
	return t.ofText(strings.TrimSpace(string(text)))
}

// kinds counts the values of a column that have each type.
type kinds struct{ null, text, number, boolean, json int64 }

// addCell counts a cell as an import of type JSON would read it.
func (k *kinds) addCell(c cell) {
	kind := jsontext.Kind(0)
	switch {
	case c.text == "" && !c.quoted:
		return
	case !c.quoted || strings.HasPrefix(c.text, "{") || strings.HasPrefix(c.text, "["):
		kind = recordfile.JSONKind(c.text)
	}
	k.add(kind)
}

func (k *kinds) add(kind jsontext.Kind) {
	switch kind {
	case 'n':
		k.null++
	case '0':
		k.number++
	case 't', 'f':
		k.boolean++
	case '{', '[':
		k.json++
	default:
		k.text++
	}
}

// choose returns the one type that all values have, or Text.
func (k *kinds) choose() ValueType {
	switch {
	case k.text > 0:
		return Text
	case k.number > 0 && k.boolean == 0 && k.json == 0:
		return Number
	case k.boolean > 0 && k.number == 0 && k.json == 0:
		return Boolean
	case k.json > 0 && k.number == 0 && k.boolean == 0:
		return JSON
	case k.number == 0 && k.boolean == 0 && k.json == 0 && k.null > 0:
		return JSON // only null, which a text would not be
	}
	return Text
}

// mixed reports whether values have several types.
func (k *kinds) mixed() bool {
	types := 0
	for _, n := range []int64{k.text, k.number, k.boolean, k.json} {
		if n > 0 {
			types++
		}
	}
	return types > 1
}

func (k *kinds) String() string {
	var list []string
	for _, c := range []struct {
		n    int64
		name string
	}{{k.text, "text"}, {k.number, "numbers"}, {k.boolean, "true or false"}, {k.json, "objects or arrays"}} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", c.n, c.name))
		}
	}
	return strings.Join(list, ", ")
}
