package record

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ObjectWriter appends a record to a byte slice as a JSON object, member by member. It does
// not escape names. End returns the error of the first invalid member.
type ObjectWriter struct {
	b   []byte
	err error
}

// NewObjectWriter returns a writer that appends to b.
func NewObjectWriter(b []byte) ObjectWriter { return ObjectWriter{b: append(b, '{')} }

func (w *ObjectWriter) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, `":`...)
}

// String appends a string, which must be UTF-8.
func (w *ObjectWriter) String(name, value string) {
	if w.err != nil {
		return
	}
	w.name(name)
	if w.b, w.err = jsontext.AppendQuote(w.b, value); w.err != nil {
		w.err = fmt.Errorf("%s: %w", name, w.err)
	}
}

// OptionalString appends null if value is empty.
func (w *ObjectWriter) OptionalString(name, value string) {
	if value != "" {
		w.String(name, value)
		return
	}
	w.name(name)
	w.b = append(w.b, "null"...)
}

func (w *ObjectWriter) True(name string) {
	w.name(name)
	w.b = append(w.b, "true"...)
}

func (w *ObjectWriter) Time(name string, value Time) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b, _ = value.AppendText(w.b) // never fails
	w.b = append(w.b, '"')
}

// Attributes appends value unchanged, after checking that it begins and ends with a brace.
func (w *ObjectWriter) Attributes(name string, value Attributes) {
	if w.err != nil {
		return
	}
	if len(value) < len("{}") || value[0] != '{' || value[len(value)-1] != '}' {
		w.err = fmt.Errorf("%s: %w", name, errNotObject)
		return
	}
	w.name(name)
	w.b = append(w.b, value...)
}

// End closes the object. It returns the extended bytes, or nil and the first error.
func (w *ObjectWriter) End() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	return append(w.b, '}'), nil
}
