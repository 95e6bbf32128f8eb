// Package record holds what every record of the service has in common, whether
// entity or event: identifiers, attributes, times, and the errors that record
// stores and record rules report.
package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a record's fields. Both ends are allowed.
const (
	MaxIDLength   = 128 // characters of an id, at least 1
	MaxNameLength = 128 // characters of a type or a name, at least 1
	MaxDepth      = 32  // levels of nesting in attributes, the object itself being the first

	// MaxAttributesBytes is the most bytes of attributes: what a request for one
	// record may carry. With the other fields it stays well within the 400 KB of
	// a DynamoDB item.
	MaxAttributesBytes = 256 << 10
)

// MaxPageBytes is about how many bytes of records one page may hold. A Lambda
// may return 6 MB (6,291,556 bytes, AWS Lambda quotas) after its body has been
// written as a JSON string, which at worst doubles it.
const MaxPageBytes = 2_500_000

// PageFull reports whether a page that already holds count records of
// pageBytes bytes ends before a further record of size bytes. A page always
// holds at least one record.
func PageFull(count, pageBytes, size int) bool {
	return count > 0 && pageBytes+size > MaxPageBytes
}

var (
	errID   = errors.New(`must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither "." nor ".."`)
	errName = fmt.Errorf("must be 1 to %d characters", MaxNameLength)
)

// CheckID returns an error that says what an id must be, or nil if id is valid.
// The ids "." and ".." are invalid: HTTP clients remove such segments from a path
// (RFC 3986, section 5.2.4), so no client could read the record.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDLength || strings.TrimLeft(id, idCharacters) != "" || id == "." || id == ".." {
		return errID
	}
	return nil
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

// CheckName returns an error that says what a type or a name must be, or nil if
// name is valid.
func CheckName(name string) error {
	n := utf8.RuneCountInString(name)
	if n < 1 || n > MaxNameLength || !utf8.ValidString(name) {
		return errName
	}
	return nil
}

// Attributes is the free part of a record: the bytes of one JSON object
// without insignificant white space, otherwise as the client wrote them, so
// that numbers keep their digits. The zero value is not valid; the empty
// object is `{}`.
type Attributes = json.RawMessage

// SameAttributes reports whether a and b are the same JSON value: the order of
// members does not matter, the digits of a number do (1 is not 1.0). Bytes
// that are not JSON equal nothing but themselves.
func SameAttributes(a, b Attributes) bool {
	if bytes.Equal(a, b) {
		return true
	}
	sortedA, errA := jsontext.AppendFormat(nil, a, jsontext.ReorderRawObjects(true))
	sortedB, errB := jsontext.AppendFormat(nil, b, jsontext.ReorderRawObjects(true))
	return errA == nil && errB == nil && bytes.Equal(sortedA, sortedB)
}

// Time is an instant in UTC to the millisecond, in the years 0000 to 9999. Its
// text is RFC 3339 of a fixed width, such as 2026-01-02T15:04:05.000Z, so that
// texts sort as instants do. The zero value is the Unix epoch. Times compare
// with ==.
type Time struct{ unixMilli int64 }

// timeLayout is the layout of the text of a Time in UTC.
const timeLayout = "2006-01-02T15:04:05.000Z"

// TimeOf cuts t down to the millisecond. It is meant for clock readings; use
// ParseTime for what a client sent.
func TimeOf(t time.Time) Time { return Time{t.UnixMilli()} }

// ParseTime reads an RFC 3339 date-time with any offset and any number of
// decimals; what is finer than a millisecond is cut off. It fails when the
// instant lies outside the years 0000 to 9999 in UTC.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !strictRFC3339(s) {
		return Time{}, errors.New("not an RFC 3339 date-time such as 2026-01-02T15:04:05Z")
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return Time{}, errors.New("outside the years 0000 to 9999 in UTC")
	}
	return TimeOf(t), nil
}

// strictRFC3339 tells what time.Parse takes for RFC 3339 from what the RFC
// allows (go.dev/issue/54580): it also takes one-digit hours, decimal commas
// and offsets of 24 hours or 60 minutes.
func strictRFC3339(s string) bool {
	const dateTime = len("2006-01-02T15:04:05")
	if s[len("2006-01-02T15")] != ':' || s[dateTime] == ',' {
		return false
	}
	if strings.HasSuffix(s, "Z") {
		return true
	}
	offset := s[len(s)-len("07:00"):]
	return offset[:2] < "24" && offset[3:] < "60"
}

// Time returns the instant as a time.Time in UTC.
func (t Time) Time() time.Time { return time.UnixMilli(t.unixMilli).UTC() }

// Compare returns -1, 0 or +1 if t is before, at or after u.
func (t Time) Compare(u Time) int { return cmp.Compare(t.unixMilli, u.unixMilli) }

// String returns the text of t.
func (t Time) String() string { return t.Time().Format(timeLayout) }

// MarshalText implements encoding.TextMarshaler. It never fails.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText implements encoding.TextAppender. It never fails.
func (t Time) AppendText(b []byte) ([]byte, error) {
	return t.Time().AppendFormat(b, timeLayout), nil
}

// UnmarshalText implements encoding.TextUnmarshaler with ParseTime.
func (t *Time) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTime(string(text))
	return err
}
