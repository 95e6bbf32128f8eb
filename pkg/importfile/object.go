package importfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// object is a record's JSON object under construction.
type object struct {
	fields     []record.Pair
	attributes []record.Pair // in addition to those in the "attributes" field
}

// ofRow converts a row of a CSV file to the API's JSON.
func (c *columns) ofRow(list []*column, cells []cell) ([]byte, error) {
	c.readable = true
	o := object{fields: make([]record.Pair, 0, len(c.fields)+1), attributes: make([]record.Pair, 0, len(list))}
	for i, cell := range cells {
		col := list[i]
		switch {
		case col.out():
			continue
		case !utf8.ValidString(cell.text):
			return nil, fmt.Errorf("%s must be text in UTF-8", col.field())
		}
		cell.text = recordfile.Restore(cell.text)
		var value []byte
		var err error
		switch {
		case col.attribute:
			value, err = col.Type.ofCell(cell)
		case cell.text == "":
		case col.name == "attributes":
			if value = []byte(cell.text); !jsontext.Value(value).IsValid() {
				return nil, errors.New("attributes must be a JSON object")
			}
		default:
			value = quote(cell.text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", col.Source, err)
		}
		if value != nil {
			if err := c.add(&o, col, value); err != nil {
				return nil, err
			}
		}
	}
	return c.finish(&o), nil
}

// ofObject converts an object in the file to the API's JSON. It returns other text unchanged, so
// that the API's parser reports the error.
func (c *columns) ofObject(text []byte) ([]byte, error) {
	members, err := record.Pairs(text)
	if err != nil {
		return text, nil //nolint:nilerr // as documented
	}
	c.readable = true
	for _, m := range members { // also those after a member that is wrong
		if col := c.byName[m.Name]; col != nil && col.described {
			c.of(m.Name)
		}
	}
	var o object
	for _, m := range members {
		if err := c.addMember(&o, m.Name, m.Value); err != nil {
			return nil, err
		}
	}
	return c.finish(&o), nil
}

// addMember adds a member of a record.
func (c *columns) addMember(o *object, path string, value []byte) (err error) {
	if c.parents[path] {
		if value, err = c.addParts(o, path, value); err != nil || value == nil {
			return err
		}
	}
	col := c.of(path)
	if string(value) != "null" && string(value) != `""` {
		col.values++
	}
	if col.out() {
		return nil
	}
	if col.attribute {
		if value, err = col.Type.ofJSON(value); err != nil {
			return fmt.Errorf("%s %w", col.Source, err)
		}
	}
	if value == nil {
		return nil
	}
	return c.add(o, col, value)
}

// addParts adds what the description names of an object in a record, such as properties.time, and
// returns the rest of the object, or nil if nothing is left.
func (c *columns) addParts(o *object, path string, value []byte) ([]byte, error) {
	parts, err := record.Pairs(value)
	if err != nil {
		return value, nil //nolint:nilerr // it is no object, so it has no parts
	}
	var rest []record.Pair
	for _, part := range parts {
		inner := path + "." + part.Name
		if c.parents[inner] {
			if part.Value, err = c.addParts(o, inner, part.Value); err != nil {
				return nil, err
			}
		}
		switch named := c.byName[inner]; {
		case part.Value == nil:
		case named != nil && named.described:
			if err := c.addMember(o, inner, part.Value); err != nil {
				return nil, err
			}
		default:
			rest = append(rest, part)
		}
	}
	if len(rest) == 0 && len(parts) > 0 {
		return nil, nil
	}
	return joined(rest), nil
}

func (c *columns) add(o *object, col *column, value []byte) (err error) {
	switch {
	case col.attribute && !(len(c.Columns) == 0 && c.Format != record.CSV):
		o.attributes = append(o.attributes, record.Pair{Name: col.name, Value: value})
		return nil
	case o.has(col.name):
		return fmt.Errorf("%s is there twice, the second time from %s", col.name, col.Source)
	case col.name == "occurred_at" && string(value) == `""`:
		return nil
	case col.name == "if_revision" && c.Mirror:
		return errCondition
	case col.name == "deleted" && c.Mirror:
		value = boolean(value)
	case col.name == "occurred_at" && c.times != nil:
		value, err = c.times.convert(value)
	case col.name != "attributes" && slices.Contains(c.fields, col.name):
		value, err = c.text(col.name, value)
	}
	o.fields = append(o.fields, record.Pair{Name: col.field(), Value: value})
	return err
}

// finish adds what the description says about records that lack it.
func (c *columns) finish(o *object) []byte {
	if c.Name != "" {
		o.setDefault("name", quote(c.Name))
	}
	if c.Type != "" {
		o.setDefault("type", quote(c.Type))
	}
	return o.json()
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
	plain := value[1 : len(value)-1] // quoted
	if field != "id" && field != "entity_id" || !c.EscapeIDs && strings.TrimLeft(string(plain), idCharacters) == "" {
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

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

func isIDCharacter(r rune) bool {
	return strings.ContainsRune(idCharacters, r)
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
		inner, err := o.attributes, error(nil)
		if string(o.fields[i].Value) != "{}" {
			inner, err = record.Pairs(o.fields[i].Value)
			inner = append(inner, o.attributes...)
		}
		if err == nil {
			o.fields[i].Value = joined(inner)
		}
	}
	return joined(o.fields)
}

func joined(members []record.Pair) []byte {
	size := len("{}")
	for _, m := range members {
		size += len(m.Name) + len(m.Value) + len(`"":,`)
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, m.Name) // a name that is not UTF-8 is rejected in the header
		b = append(append(b, ':'), m.Value...)
	}
	return append(b, '}')
}
