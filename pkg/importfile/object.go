package importfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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
	if !c.rename && c.times == nil && c.Name == "" && c.Type == "" {
		return text, nil
	}
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
	case field == "occurred_at" && c.times != nil:
		m.Value, err = c.times.convert(m.Value)
	case field != m.Name && field != "attributes" && jsontext.Value(m.Value).Kind() == '0':
		m.Value = quote(string(m.Value)) // a number, such as a numeric id, becomes a string
	}
	o.fields = append(o.fields, record.Pair{Name: field, Value: m.Value})
	return err
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
