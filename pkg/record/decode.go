package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Pair is a name/value pair of a JSON object.
type Pair struct {
	Name   string // decoded name
	Quoted []byte // name as in the JSON text, with its quotes
	Value  []byte // JSON text of the value

	// pairs replaces Value if the value is an object and reader.pairs was called with deep = true.
	pairs []Pair
}

var (
	errNotObject = errors.New("must be a JSON object")
	errKind      = errors.New("a JSON value, but not an object")
)

// Pairs returns the members of a JSON object in order. Their Quoted and Value share the
// bytes of object. Pairs fails if object is not exactly one JSON object, or contains
// duplicate names at any level, invalid UTF-8 or a lone surrogate.
func Pairs(object []byte) ([]Pair, error) {
	return newReader(object).pairs(false)
}

// reader returns values as slices of text, not as copies.
type reader struct {
	text   []byte
	dec    *jsontext.Decoder
	enough func(Pair) bool // ends the reading of an object after a member; nil to read all of it
}

func newReader(text []byte) reader {
	return reader{text: text, dec: jsontext.NewDecoder(bytes.NewBuffer(text))} // a Decoder reads a bytes.Buffer without copying it
}

var errEnough = errors.New("enough has returned true")

// pairs does what Pairs does. If deep is true, a member whose value is an object has
// Pair.pairs instead of Pair.Value, at all levels.
func (r reader) pairs(deep bool) ([]Pair, error) {
	members, err := r.object(deep)
	switch err {
	case errEnough:
		return members, nil
	case nil:
		if _, end := r.dec.ReadToken(); end != io.EOF {
			err = errors.New("more text follows the object")
		}
	}
	if err != nil && err != errKind {
		err = syntaxError(err)
	}
	return members, err
}

func (r reader) value() ([]byte, error) {
	value, err := r.dec.ReadValue()
	end := int(r.dec.InputOffset())
	return r.text[end-len(value) : end], err
}

func (r reader) object(deep bool) (members []Pair, err error) {
	open, err := r.dec.ReadToken()
	switch {
	case err != nil:
		return nil, err
	case open.Kind() != '{':
		return nil, errKind
	}
	for r.dec.PeekKind() == '"' {
		var m Pair
		if m.Quoted, err = r.value(); err != nil {
			return nil, err
		}
		name, _ := jsontext.AppendUnquote(nil, m.Quoted) // the decoder has checked the name
		m.Name = string(name)
		if deep && r.dec.PeekKind() == '{' {
			m.pairs, err = r.object(deep)
		} else {
			m.Value, err = r.value()
		}
		if err != nil {
			return nil, err
		}
		members = append(members, m)
		if r.enough != nil && r.enough(m) {
			return members, errEnough
		}
	}
	_, err = r.dec.ReadToken() // the closing brace
	return members, err
}

// syntaxError rewords err for a client, and adds the byte offset of a syntax error.
func syntaxError(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("it is empty")
	case errors.As(err, &syntax):
		err = fmt.Errorf("%w (byte %d)", syntax.Err, syntax.ByteOffset)
	}
	return fmt.Errorf("not one well-formed JSON object: %w", err)
}

// Decoder decodes the value of a member. Its error says what to change, such as "must be a
// string". Decoders.Decode is a Decoder for objects.
type Decoder func(value []byte) error

// Decoders maps the name of each member that a JSON object may have to its Decoder. A member
// whose Decoder is nil is ignored.
type Decoders map[string]Decoder

// Decode decodes a JSON object (RFC 8259, without duplicate names or lone surrogates). A known
// member that is null counts as absent. The error has code Malformed if object is not exactly
// one JSON object. Otherwise it has code Invalid and names the unknown and invalid members. After
// maxFields unknown members, Decode reads no further.
func (d Decoders) Decode(object []byte) error {
	r, unknown := newReader(object), 0
	r.enough = func(m Pair) bool {
		if _, known := d[m.Name]; !known {
			unknown++
		}
		return unknown == maxFields
	}
	members, err := r.pairs(false)
	if err != nil {
		return &Error{Code: Malformed, Detail: "the text is " + err.Error()}
	}
	var wrong Fields
	advised := false
	for _, m := range members {
		decode, known := d[m.Name]
		switch {
		case !known:
			detail := "is not a field here"
			if !advised {
				detail, advised = detail+"; the fields are "+strings.Join(slices.Sorted(maps.Keys(d)), ", "), true
			}
			wrong.Add(m.Name, detail)
		case decode != nil && string(m.Value) != "null":
			wrong.checkMember(m.Name, decode(m.Value))
		}
	}
	return wrong.Err()
}

// checkMember adds the error of a member's Decoder to f. For an error from Decoders.Decode, it
// adds each invalid field of the object with its path, or errNotObject if the value is not an
// object.
func (f *Fields) checkMember(name string, err error) {
	var nested *Error
	switch {
	case !errors.As(err, &nested):
		f.Check(name, err)
	case nested.Code == Malformed:
		f.Check(name, errNotObject)
	default:
		for _, member := range nested.Fields {
			f.Add(name+"/"+member.Field, member.Detail)
		}
	}
}

// Text decodes a string. check may be nil; otherwise, its error says why a string is invalid.
func Text[S ~string](into *S, check func(string) error) Decoder {
	return func(value []byte) error {
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return errors.New("must be a string")
		}
		*into = S(text)
		if check == nil {
			return nil
		}
		return check(string(text))
	}
}

func Boolean(into *bool) Decoder {
	return func(value []byte) error {
		if *into = string(value) == "true"; !*into && string(value) != "false" {
			return errors.New("must be true or false")
		}
		return nil
	}
}

// Whole decodes a whole number of at least 0 and makes *into point to it.
func Whole(into **int64) Decoder {
	return func(value []byte) error {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 {
			return errors.New("must be a whole number of at least 0")
		}
		*into = &n
		return nil
	}
}

// Instant decodes a time with ParseTime and makes *into point to it.
func Instant(into **Time) Decoder {
	return Text(new(string), func(text string) error {
		t, err := ParseTime(text)
		if err != nil {
			return fmt.Errorf("is %w", err)
		}
		*into = &t
		return nil
	})
}

// Object decodes attributes and removes insignificant white space.
func Object(into *Attributes) Decoder {
	return func(value []byte) error {
		object := jsontext.Value(bytes.Clone(value))
		if object.Kind() != '{' || object.Compact() != nil {
			return errNotObject
		}
		if depth(object) > MaxDepth {
			return fmt.Errorf("is nested deeper than %d levels", MaxDepth)
		}
		*into = Attributes(object)
		return nil
	}
}

// Array decodes an array of 1 to maxLength elements of any type.
func Array(into *[][]byte, maxLength int) Decoder {
	wrong := fmt.Errorf("must be an array of 1 to %d elements", maxLength)
	return func(value []byte) error {
		dec := jsontext.NewDecoder(bytes.NewBuffer(value))
		if open, err := dec.ReadToken(); err != nil || open.Kind() != '[' {
			return wrong
		}
		var elements [][]byte
		for dec.PeekKind() != ']' {
			element, err := dec.ReadValue()
			if err != nil || len(elements) == maxLength {
				return wrong
			}
			elements = append(elements, bytes.Clone(element))
		}
		if len(elements) == 0 {
			return wrong
		}
		*into = elements
		return nil
	}
}

// Texts decodes an array of 1 to maxLength strings, which check may reject as in Text.
func Texts[S ~string](into *[]S, maxLength int, check func(string) error) Decoder {
	return func(value []byte) error {
		var elements [][]byte
		if err := Array(&elements, maxLength)(value); err != nil {
			return fmt.Errorf("must be an array of 1 to %d strings", maxLength)
		}
		for _, e := range elements {
			var text S
			if err := Text(&text, check)(e); err != nil {
				return fmt.Errorf("has an element that %w", err)
			}
			*into = append(*into, text)
		}
		return nil
	}
}

// depth counts the nested levels of objects and arrays in a valid value.
func depth(value jsontext.Value) int {
	dec, deepest := jsontext.NewDecoder(bytes.NewBuffer(value)), 0
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}
