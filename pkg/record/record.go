// Package record defines what entities and events have in common: ids, attributes, times, and
// the errors that stores and checks of records return.
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

// Bounds on a record's fields, inclusive.
const (
	MaxIDLength   = 128 // in characters; the minimum is 1
	MaxNameLength = 128 // in characters, for types and names; the minimum is 1
	MaxDepth      = 32  // levels of nesting in attributes, including the object itself

	// MaxAttributesBytes is also the maximum size of a request for one record. Attributes and the
	// other fields together stay well below the 400 KB limit of a DynamoDB item.
	MaxAttributesBytes = 256 << 10
)

// Resource is a kind of record that clients import and export.
type Resource string

const (
	Entity Resource = "entity"
	Event  Resource = "event"
)

func (r Resource) Plural() string {
	if r == Entity {
		return "entities"
	}
	return string(r) + "s"
}

var (
	errID   = errors.New(`must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither "." nor ".."`)
	errUTF8 = errors.New("must be UTF-8")
	errName = fmt.Errorf("must be 1 to %d characters", MaxNameLength)
)

// CheckID returns nil, or an error that says what a valid id looks like. "." and ".." are
// invalid, because HTTP clients remove such segments from a path (RFC 3986, section 5.2.4), so
// no client could read the record.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDLength || strings.TrimLeft(id, idCharacters) != "" || id == "." || id == ".." {
		return errID
	}
	return nil
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

// CheckName returns nil, or an error that says what a valid type or name looks like.
func CheckName(name string) error {
	if !utf8.ValidString(name) {
		return errUTF8
	}
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxNameLength {
		return errName
	}
	return nil
}

// Attributes is what a client stores in a record: one JSON object, without insignificant white
// space. All other bytes are as the client sent them, so numbers keep their digits. The zero
// value is not valid; the empty object is `{}`.
type Attributes = json.RawMessage

// SameAttributes reports whether a and b are the same JSON value. The order of members does
// not matter, but the digits of a number do: 1 differs from 1.0. If either is not valid JSON,
// their bytes are compared.
func SameAttributes(a, b Attributes) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) < formatted(b) || len(b) < formatted(a) { // a batch may name a large record a hundred times
		return false
	}
	sortedA, errA := jsontext.AppendFormat(nil, a, jsontext.ReorderRawObjects(true))
	sortedB, errB := jsontext.AppendFormat(nil, b, jsontext.ReorderRawObjects(true))
	return errA == nil && errB == nil && bytes.Equal(sortedA, sortedB)
}

// formatted is the least number of bytes that a has without its escapes, of which the longest for one
// byte is \u0041.
func formatted(a Attributes) int { return len(a) - 5*bytes.Count(a, []byte{'\\'}) }

// Time is an instant in UTC to the millisecond, in the years 0000 to 9999. Its text is RFC
// 3339 in fixed width, such as 2026-01-02T15:04:05.000Z, so texts sort in order of time. The
// zero value is the Unix epoch. Times can be compared with ==.
type Time struct{ unixMilli int64 }

// TimeOf truncates a clock reading to the millisecond. Use ParseTime for times from clients.
func TimeOf(t time.Time) Time { return Time{t.UnixMilli()} }

// ParseTime parses an RFC 3339 date-time with any offset and any number of decimals, and
// truncates it to the millisecond. It fails if the time is outside the years 0000 to 9999 in
// UTC.
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

// strictRFC3339 rejects what time.Parse accepts beyond RFC 3339: hours of one digit, decimal
// commas, and offsets with more than 23 hours or 59 minutes (go.dev/issue/54580).
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

func (t Time) Time() time.Time { return time.UnixMilli(t.unixMilli).UTC() }

// Compare orders times as [cmp.Compare] does.
func (t Time) Compare(u Time) int { return cmp.Compare(t.unixMilli, u.unixMilli) }

func (t Time) String() string {
	b, _ := t.AppendText(nil)
	return string(b)
}

// MarshalText never fails.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText never fails.
func (t Time) AppendText(b []byte) ([]byte, error) {
	b = t.Time().AppendFormat(b, time.RFC3339) // three times as fast as a layout with milliseconds
	ms := (t.unixMilli%1000 + 1000) % 1000     // also correct before 1970
	return append(b[:len(b)-1], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'), nil
}

// UnmarshalText parses text with ParseTime.
func (t *Time) UnmarshalText(text []byte) (err error) {
	*t, err = ParseTime(string(text))
	return err
}
