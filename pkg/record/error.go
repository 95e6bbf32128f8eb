package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind classifies an Error, so that a caller can act on it.
type Kind int

// The kinds.
const (
	Invalid     Kind = iota + 1 // a field is invalid; Fields says which; nothing was written
	NotFound                    // the workspace has no record with this id
	Conflict                    // a record with this id exists with different content; nothing was written
	TooMany                     // the quota of unfinished export jobs is reached; nothing was written
	Malformed                   // the text is not a JSON object; nothing was written
	Unavailable                 // the store did not respond in time, or other requests changed the record; a write may have happened
)

// Error is the error of record rules and record stores. If a store returns an error
// that is not an *Error, the service has a fault.
type Error struct {
	Kind   Kind
	Detail string       // one sentence for the client, without the cause
	Fields []FieldError // the invalid fields; only if Kind is Invalid
	Err    error        // the cause, for logs; may be nil
}

// FieldError describes an invalid field of a record.
type FieldError struct {
	Field  string `json:"field"`  // name of the member, or its path, such as attributes/a/0
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

// KindOf returns the kind of the first *Error in the chain of err, or 0 if the chain has
// no *Error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// Fields collects the invalid fields of a record.
type Fields []FieldError

// maxFields is the maximum length of Fields, so that an error stays small.
const maxFields = 20

// Add adds an invalid field to f. It does nothing if detail is empty, or if f already has
// maxFields fields.
func (f *Fields) Add(field, detail string) {
	if detail != "" && len(*f) < maxFields {
		*f = append(*f, FieldError{Field: field, Detail: detail})
	}
}

// Check adds an invalid field to f. The detail is the text of err, which must say what to
// change. If err is nil, Check does nothing.
func (f *Fields) Check(field string, err error) {
	if err != nil {
		f.Add(field, err.Error())
	}
}

// Err returns an error of kind Invalid with the fields, or nil if f is empty.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Detail: "the record has fields that cannot be accepted", Fields: f}
}

// UnavailableError returns an error of kind Unavailable, for a store that did not
// respond. op names the operation that failed with err.
func UnavailableError(op string, err error) error {
	return &Error{Kind: Unavailable, Detail: "the record store did not respond", Err: fmt.Errorf("%s: %w", op, err)}
}

// NotFoundError returns an error of kind NotFound, for an id without a record. The parameter
// noun is the name of the kind of record, such as "entity" or "export job".
func NotFoundError(noun, id string) error {
	return &Error{Kind: NotFound, Detail: fmt.Sprintf("there is no %s with the id %q", noun, id)}
}

// ConflictError returns an error of kind Conflict, for an id that exists with different
// content.
func ConflictError(noun, id string) error {
	return &Error{Kind: Conflict, Detail: fmt.Sprintf("another %s already has the id %q; repeat with the same content or choose another id", noun, id)}
}

// Shorten returns at most the first 64 characters of s, a text from a client, for use in
// errors. If it drops any characters, it appends an ellipsis.
func Shorten(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
