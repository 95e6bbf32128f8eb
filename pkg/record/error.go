package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Code says what a caller can do about an Error.
type Code int

const (
	Invalid     Code = iota + 1 // Fields lists the invalid fields; nothing was written
	NotFound                    // the workspace has no record with this id
	Conflict                    // a record with this id has different content, or the job has already ended; nothing was written
	Malformed                   // the text is not a JSON object; nothing was written
	Mismatch                    // the entity does not have the revision that the change was made for; nothing was written
	Unavailable                 // the store did not respond in time, or other requests kept changing the record; the write may have happened
)

// Error is an error that a client can understand, such as an invalid field or an unknown id.
// Any other error from a store is a fault in the service.
type Error struct {
	Code   Code
	Detail string       // one sentence for the client, without the cause
	Fields []FieldError // only if Code is Invalid
	Err    error        // the cause, for logs; may be nil

	Revision int64 // only if Code is Mismatch: the current revision, 0 if there is no live entity
}

// FieldError says what is wrong with a field.
type FieldError struct {
	Field  string `json:"field"`  // name or path, such as attributes/a/0
	Detail string `json:"detail"` // what to change
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s %s", f.Field, f.Detail)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first *Error in err's chain, or 0 if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// Fields collects the invalid fields of a record.
type Fields []FieldError

// maxFields keeps errors short.
const maxFields = 20

// Add does nothing if detail is empty or f already has maxFields fields. It shortens the name of
// the field, which may be a client's, but not detail.
func (f *Fields) Add(field, detail string) {
	if detail != "" && len(*f) < maxFields {
		*f = append(*f, FieldError{Field: Shorten(field), Detail: detail})
	}
}

// Check adds a field unless err is nil. The text of err must say what to change.
func (f *Fields) Check(field string, err error) {
	if err != nil {
		f.Add(field, err.Error())
	}
}

// Err returns an error with code Invalid, or nil if f is empty.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Detail: "the record has fields that cannot be accepted", Fields: f}
}

// UnavailableError returns the error for a store that did not respond to op; err is the cause.
func UnavailableError(op string, err error) error {
	return &Error{Code: Unavailable, Detail: "the record store did not respond", Err: fmt.Errorf("%s: %w", op, err)}
}

// NotFoundError says that there is no record with the id. noun is the kind of record, such as
// "entity" or "export job".
func NotFoundError(noun, id string) error {
	return &Error{Code: NotFound, Detail: fmt.Sprintf("there is no %s with the id %q", noun, id)}
}

// ConflictError says that a record with the id exists, but has different content.
func ConflictError(noun, id string) error {
	return &Error{Code: Conflict, Detail: fmt.Sprintf("another %s already has the id %q; repeat with the same content or choose another id", noun, id)}
}

// Shorten returns the first 64 characters of a client's text for an error message. An ellipsis
// follows if the text is longer. What is not printable, such as a control character or a byte that
// is not UTF-8, becomes U+FFFD.
func Shorten(s string) string { return ShortenTo(s, 64) }

// ShortenTo is Shorten with another number of characters.
func ShortenTo(s string, most int) string {
	var b strings.Builder
	b.Grow(min(len(s), most+len("…")))
	n := 0
	for _, c := range s {
		if n++; n > most {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(c) {
			c = unicode.ReplacementChar
		}
		b.WriteRune(c)
	}
	return b.String()
}
