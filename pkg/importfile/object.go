package importfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

// object is a record's JSON object under construction.
type object struct {
	fields     []record.Pair
	attributes []record.Pair // in addition to those in the "attributes" field
}

// record converts an object in the file to the API's JSON. It returns other text unchanged, so
// that the API's parser reports the error.
func (c *columns) record(text []byte) ([]byte, error) {
	members, err := record.Pairs(text)
	if err != nil {
		return text, nil //nolint:nilerr // as documented
	}
	c.find(members)
	var o object
	for _, m := range members {
		if err := c.add(&o, m); err != nil {
			return nil, err
		}
	}
	if c.Name != "" {
		o.setDefault("name", quote(c.Name))
	}
	if c.Type != "" {
		o.setDefault("type", quote(c.Type))
	}
	return o.json(), nil
}

func (c *columns) add(o *object, m record.Pair) (err error) {
	field := m.Name
	if c.rename {
		field = c.field(m.Name)
	}
	switch name, isAttribute := strings.CutPrefix(field, AttributePrefix); {
	case field == "":
		return nil
	case isAttribute && c.rename:
		o.attributes = append(o.attributes, record.Pair{Name: name, Value: m.Value})
		return nil
	case o.has(field):
		return fmt.Errorf("%s is there twice, the second time from %s", field, m.Name)
	case field == "occurred_at" && string(m.Value) == `""`:
		return nil
	case field == "if_revision" && c.Mirror:
		return errCondition
	case field == "deleted" && c.Mirror:
		m.Value = boolean(m.Value)
	case field == "occurred_at" && c.times != nil:
		m.Value, err = c.times.convert(m.Value)
	case field != "attributes":
		m.Value, err = c.text(field, m.Value)
	}
	o.fields = append(o.fields, record.Pair{Name: field, Value: m.Value})
	return err
}

// boolean turns a text, as in a cell, into true, false or null.
func boolean(value []byte) []byte {
	switch text := strings.ToLower(string(value)); text {
	case `"true"`, `"false"`:
		return []byte(text[1 : len(text)-1])
	case `""`:
		return []byte("null")
	}
	return value
}

// text converts the value of a field that is a text. A number, such as a numeric id, becomes a text
// of the same characters.
func (c *columns) text(field string, value []byte) ([]byte, error) {
	switch jsontext.Value(value).Kind() {
	case '0':
		if field == "occurred_at" {
			return nil, fmt.Errorf("occurred_at is a number, %s; the time formats %s and %s read numbers", record.Shorten(string(value)), UnixTime, UnixMilli)
		}
		value = quote(string(value))
	case '"':
	default:
		return value, nil // null, or for the API's parser to reject
	}
	if field != "id" && field != "entity_id" {
		return value, nil
	}
	id, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return value, nil //nolint:nilerr // the API's parser reports the error
	}
	if c.EscapeIDs {
		id = []byte(escapeID(string(id)))
	}
	if at := strings.IndexFunc(string(id), func(r rune) bool { return !isIDCharacter(r) }); at >= 0 {
		bad, _ := utf8.DecodeRune(id[at:])
		return nil, fmt.Errorf("%s %q has the character %q; ids have only A-Z a-z 0-9 . _ : - unless others are escaped", field, record.Shorten(string(id)), bad)
	}
	return quote(string(id)), nil
}

func isIDCharacter(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("._:-", r)
}

// escapeID replaces each byte that an id cannot have, and each colon, by a colon and the byte's two
// hexadecimal digits. So a/b becomes a:2Fb, and the id can be read back.
func escapeID(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := rune(id[i]); c != ':' && isIDCharacter(c) {
			b.WriteByte(id[i])
		} else {
			fmt.Fprintf(&b, ":%02X", id[i])
		}
	}
	return b.String()
}

func (o *object) has(field string) bool {
	return slices.ContainsFunc(o.fields, func(m record.Pair) bool { return m.Name == field })
}

// setDefault sets a field that is absent or null.
func (o *object) setDefault(field string, value []byte) {
	o.fields = slices.DeleteFunc(o.fields, func(m record.Pair) bool { return m.Name == field && string(m.Value) == "null" })
	if !o.has(field) {
		o.fields = append(o.fields, record.Pair{Name: field, Value: value})
	}
}

// json leaves it to the API's parser to reject duplicate attributes and an attributes field that is
// not an object.
func (o *object) json() []byte {
	if len(o.attributes) > 0 {
		o.setDefault("attributes", []byte("{}"))
		i := slices.IndexFunc(o.fields, func(m record.Pair) bool { return m.Name == "attributes" })
		if inner, err := record.Pairs(o.fields[i].Value); err == nil {
			o.fields[i].Value = joined(append(inner, o.attributes...))
		}
	}
	return joined(o.fields)
}

func joined(members []record.Pair) []byte {
	b := bytes.NewBufferString("{")
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.Name))
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
