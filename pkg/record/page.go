package record

import (
	"errors"
	"slices"
)

// MaxPageBytes is the approximate size at which a page is full. A Lambda function can return 6
// MB (6,291,556 bytes; see AWS Lambda quotas), and Lambda encodes the body as a JSON string, which
// can double the size.
const MaxPageBytes = 2_500_000

// MaxPassedBytes is the approximate total size of the deleted or expired records that a page may
// skip. It equals the maximum size of a DynamoDB response.
const MaxPassedBytes = 1 << 20

// PageFull reports whether a page with count records and pageBytes bytes has no room for another
// record of size bytes. An empty page always has room.
func PageFull(count, pageBytes, size int) bool {
	return count > 0 && pageBytes+size > MaxPageBytes
}

// Cursor says where a page of a list starts. Only the store that made it looks into it. It is
// ASCII, and "" is the start of the list.
type Cursor string

// ErrCursor means that no page of the list can have the Cursor of a query as its Next.
var ErrCursor = errors.New("not a cursor of this list")

// ID returns the id after which the page starts, in a list whose cursors are ids.
func (c Cursor) ID() (string, error) {
	if c != "" && CheckID(string(c)) != nil {
		return "", ErrCursor
	}
	return string(c), nil
}

// Page is one page of a list.
type Page[R any] struct {
	Records []R
	Next    Cursor // where the next page starts; "" if no more records follow

	// Settled is only in pages of changes. When the page was read, the list had every change before
	// this time, and no such change can be added to it.
	Settled Time
}

// Filter keeps the records for which show returns true. None may be left even if Next is not
// empty.
func Filter[R any](p Page[R], show func(R) bool) Page[R] {
	p.Records = slices.DeleteFunc(p.Records, func(r R) bool { return !show(r) })
	return p
}
