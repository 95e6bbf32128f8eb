package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of a JSON object.
type Member struct {
	Name   string // decoded
	Quoted []byte // the name as it is written
	Value  []byte // JSON
}

// Members returns the members of a JSON object in their order. They share the
// bytes of object. It fails if object is anything but one JSON object, or if it
// has a duplicate name at any level, invalid UTF-8 or a lone surrogate.
func Members(object []byte) ([]Member, error) {
	all, err := members(object)
	if err != nil && err != errNotObject {
		err = errors.New("not one JSON object: " + strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return all, err
}

// decoders are reused for the memory in which they note the names of members.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

func members(object []byte) (all []Member, err error) {
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(object)) // which it does not copy
	next := func() ([]byte, error) {
		value, err := dec.ReadValue()
		end := int(dec.InputOffset())
		return object[end-len(value) : end], err
	}
	open, err := dec.ReadToken()
	switch {
	case err != nil:
		return nil, err
	case open.Kind() != '{':
		return nil, errNotObject
	}
	for dec.PeekKind() == '"' {
		var m Member
		if m.Quoted, err = next(); err != nil {
			return nil, err
		}
		if m.Value, err = next(); err != nil {
			return nil, err
		}
		name, _ := jsontext.AppendUnquote(nil, m.Quoted) // which is valid
		m.Name = string(name)
		all = append(all, m)
	}
	if _, err := dec.ReadToken(); err != nil { // the end of the object
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.New("something follows it")
	}
	return all, nil
}

// Decoder decodes the value of a member. Its error says what to change, such as
// "must be a string".
type Decoder func(value []byte) error

// DecodeObject decodes the JSON object of a record with a Decoder for each
// member that it may have; nil ignores a member. A member that is null counts
// as left out. The error is of kind Invalid: it names every member that is
// unknown or wrong, or says why object is not a JSON object. noun is "entity"
// or "event".
func DecodeObject(object []byte, noun string, decoders map[string]Decoder) error {
	members, err := Members(object)
	if err != nil {
		return &Error{Kind: Invalid, Detail: "it is " + err.Error()}
	}
	var wrong Fields
	for _, m := range members {
		decode, known := decoders[m.Name]
		switch {
		case !known:
			wrong.Add(m.Name, "is not a field of an "+noun)
		case decode != nil && string(m.Value) != "null":
			wrong.Check(m.Name, decode(m.Value))
		}
	}
	return wrong.Err()
}

// Text decodes a string that passes check.
func Text[S ~string](into *S, check func(string) error) Decoder {
	return func(value []byte) error {
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return errors.New("must be a string")
		}
		*into = S(text)
		return check(string(text))
	}
}

// Instant decodes a time (ParseTime).
func Instant(into *Time) Decoder {
	return func(value []byte) error {
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return errors.New("must be a string")
		}
		if *into, err = ParseTime(string(text)); err != nil {
			return fmt.Errorf("is %w", err)
		}
		return nil
	}
}

// Object decodes attributes, without insignificant white space.
func Object(into *Attributes) Decoder {
	return func(value []byte) error {
		object := jsontext.Value(bytes.Clone(value))
		if object.Kind() != '{' || object.Compact() != nil {
			return errors.New("must be a JSON object")
		}
		*into = Attributes(object)
		return nil
	}
}
