package record

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind says what went wrong with a record in a way that a caller can act on.
type Kind int

// The kinds.
const (
	Invalid     Kind = iota + 1 // a field breaks a rule; Fields says which; nothing was written
	NotFound                    // no record of that id in the workspace
	Conflict                    // a record of that id exists with other content; nothing was written
	TooMany                     // the workspace has as many such records as it may have; nothing was written
	Malformed                   // the text is not a JSON object; nothing was written
	Unavailable                 // the store did not respond in time, or others changed the record; a write may or may not have happened
)

// Error is the error of record rules and record stores. An error that a store
// returns and that is not an *Error is a fault of the service.
type Error struct {
	Kind   Kind
	Detail string       // one sentence for the client; never a cause
	Fields []FieldError // of Invalid only
	Err    error        // the cause, for logs; may be nil
}

// FieldError says what is wrong with one field of a record.
type FieldError struct {
	Field  string `json:"field"`  // the member's name, a JSON Pointer below it where needed: attributes/a/0
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

// Fields collects what is wrong with a record's fields.
type Fields []FieldError

// maxFields is the most fields that are named, so that an error stays small.
const maxFields = 20

// Add notes that field is wrong, unless detail is empty.
func (f *Fields) Add(field, detail string) {
	if detail != "" && len(*f) < maxFields {
		*f = append(*f, FieldError{Field: field, Detail: detail})
	}
}

// Check notes that field is wrong, unless err is nil. The text of err becomes
// the detail, so it must say what to change.
func (f *Fields) Check(field string, err error) {
	if err != nil {
		f.Add(field, err.Error())
	}
}

// Err returns an Invalid error that names the fields, or nil if f is empty.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Detail: "the record has fields that cannot be accepted", Fields: f}
}

// UnavailableError returns an error for a store that did not respond.
func UnavailableError(op string, err error) error {
	return &Error{Kind: Unavailable, Detail: "the record store did not answer", Err: fmt.Errorf("%s: %w", op, err)}
}

// NotFoundError returns an error for an id of which there is no record. noun is "entity"
// or "event".
func NotFoundError(noun, id string) error {
	return &Error{Kind: NotFound, Detail: fmt.Sprintf("there is no %s with the id %q", noun, id)}
}

// ConflictError returns an error for an id that is taken by other content.
func ConflictError(noun, id string) error {
	return &Error{Kind: Conflict, Detail: fmt.Sprintf("another %s already has the id %q; repeat with the same content or choose another id", noun, id)}
}

// Shorten returns the first 64 characters of a client's text, for errors.
func Shorten(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
