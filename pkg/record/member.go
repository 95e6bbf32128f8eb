package record

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of a record: its name, and a pointer to its value. Each kind of record
// lists its members once, in the order of its JSON, and whatever reads or writes such records
// follows that list: JSON, CSV, imports, checks and the stores.
type Member struct {
	Name  string
	Value any // *string, *int64, *Time, *Attributes or *bool

	Check     func(text string) error // says what is wrong with a text from a client; nil if nothing can be
	Null      bool                    // may be empty, and is then null in JSON
	Omit      bool                    // may be empty, and is then left out of the JSON
	ByService bool                    // set by the service, so clients cannot choose it
}

// Room has room for the members of one record. Lists of records use it to avoid an allocation for
// each record, which would take a fifth of their time.
type Room [8]Member

// Empty reports whether the value is the zero value of its type. Attributes are never empty.
func (m Member) Empty() bool {
	switch v := m.Value.(type) {
	case *string:
		return *v == ""
	case *int64:
		return *v == 0
	case *Time:
		return *v == Time{}
	case *bool:
		return !*v
	}
	return false
}

// Optional reports whether the value may be empty.
func (m Member) Optional() bool { return m.Null || m.Omit }

// Derived reports whether other members already say what m says, so that stores do not keep it.
func (m Member) Derived() bool {
	_, ok := m.Value.(*bool)
	return ok
}

// Names returns the names of members.
func Names(members []Member) (names []string) {
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

// Columns returns the names of the members that have a column of their own in a CSV file: all but
// attributes.
func Columns(members []Member) []string {
	return Names(slices.DeleteFunc(slices.Clone(members), func(m Member) bool { _, ok := m.Value.(*Attributes); return ok }))
}

// SetByService returns the names of the members that clients cannot choose.
func SetByService(members []Member) []string {
	return Names(slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !m.ByService }))
}

// AppendJSON appends a record as a JSON object. It does not escape names, and of attributes it
// checks only that they begin and end with a brace. It fails if a text is not UTF-8.
func AppendJSON(b []byte, members []Member) ([]byte, error) {
	b = append(b, '{')
	for i := range members {
		m := &members[i]
		if m.Omit && m.Empty() {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), m.Name...), `":`...)
		var err error
		if b, err = m.appendValue(b); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return append(b, '}'), nil
}

func (m *Member) appendValue(b []byte) ([]byte, error) {
	switch v := m.Value.(type) {
	case *string:
		if *v != "" || !m.Null {
			return jsontext.AppendQuote(b, *v)
		}
		return append(b, "null"...), nil
	case *int64:
		return strconv.AppendInt(b, *v, 10), nil
	case *Time:
		b, _ = v.AppendText(append(b, '"')) // never fails
		return append(b, '"'), nil
	case *Attributes:
		if n := len(*v); n < len("{}") || (*v)[0] != '{' || (*v)[n-1] != '}' {
			return nil, errNotObject
		}
		return append(b, *v...), nil
	case *bool:
		return strconv.AppendBool(b, *v), nil
	}
	panic("record: unknown type of member " + m.Name)
}

// ReadJSON sets members to the values in an object that the service has sent. It ignores other
// members, and leaves unchanged what is null or absent.
func ReadJSON(object []byte, members []Member) error {
	pairs, err := Pairs(object)
	if err != nil {
		return err
	}
	byName := make(map[string][]byte, len(pairs))
	for _, p := range pairs {
		byName[p.Name] = p.Value
	}
	for _, m := range members {
		value := byName[m.Name]
		if value == nil || string(value) == "null" {
			continue
		}
		m.Check = nil
		if err := m.decode(value); err != nil {
			return fmt.Errorf("%s %w", m.Name, err)
		}
	}
	return nil
}

// Parse sets members to the values in an object from a client, and returns which members the
// object has. It rejects members that clients cannot choose, but skips those that are ignored.
// The error is as in Decoders.Decode.
func Parse(object []byte, members []Member, ignored ...string) (given map[string]bool, err error) {
	decoders := make(Decoders)
	given = make(map[string]bool)
	for _, m := range members {
		if !m.ByService {
			decoders[m.Name] = func(value []byte) error {
				given[m.Name] = true
				return m.decode(value)
			}
		}
	}
	for _, name := range ignored {
		decoders[name] = nil
	}
	return given, decoders.Decode(object)
}

// decode is a Decoder. It sets the value even if Check rejects it.
func (m *Member) decode(value []byte) error {
	switch v := m.Value.(type) {
	case *string:
		return Text(v, m.Check)(value)
	case *int64:
		var n *int64
		err := Whole(&n)(value)
		if err == nil {
			*v = *n
		}
		return err
	case *Time:
		var t *Time
		err := Instant(&t)(value)
		if err == nil {
			*v = *t
		}
		return err
	case *Attributes:
		return Object(v)(value)
	case *bool:
		return Boolean(v)(value)
	}
	panic("record: unknown type of member " + m.Name)
}

// Check returns the texts that a client may not choose.
func Check(members []Member) (wrong Fields) {
	for _, m := range members {
		if text, ok := m.Value.(*string); ok && m.Check != nil && !(m.Optional() && *text == "") {
			wrong.Check(m.Name, m.Check(*text))
		}
	}
	return wrong
}

// Same reports whether two records of a kind are the same but for what the service sets.
func Same(a, b []Member) bool {
	for i, m := range a {
		same := true
		switch v := m.Value.(type) {
		case *string:
			same = *v == *b[i].Value.(*string)
		case *int64:
			same = *v == *b[i].Value.(*int64)
		case *Time:
			same = *v == *b[i].Value.(*Time)
		case *Attributes:
			same = SameAttributes(*v, *b[i].Value.(*Attributes))
		}
		if !same && !m.ByService {
			return false
		}
	}
	return true
}
