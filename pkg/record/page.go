package record

import "slices"

// MaxPageBytes is the approximate size at which a page is full. A Lambda function can return 6
// MB (6,291,556 bytes; see AWS Lambda quotas), and Lambda encodes the body as a JSON string, which
// can double the size.
const MaxPageBytes = 2_500_000

// MaxPassedBytes is the approximate total size of the deleted records that a page may skip. It
// equals the maximum size of a DynamoDB response.
const MaxPassedBytes = 1 << 20

// PageFull reports whether a page with count records and pageBytes bytes has no room for another
// record of size bytes. An empty page always has room.
func PageFull(count, pageBytes, size int) bool {
	return count > 0 && pageBytes+size > MaxPageBytes
}

// Page is one page of a list: its records, and where the next page starts.
type Page[R any] struct {
	Records []R
	More    bool     // whether more records follow
	Last    Position // position of the last record read, even if it is not in Records; the next page starts after it
}

// Filter keeps the records for which show returns true. A page may become empty even if More
// is true; its Last still says where the next page starts.
func Filter[R any](p Page[R], position func(R) Position, show func(R) bool) Page[R] {
	kept := Page[R]{More: p.More}
	if n := len(p.Records); n > 0 {
		kept.Last = position(p.Records[n-1])
	}
	kept.Records = slices.DeleteFunc(p.Records, func(r R) bool { return !show(r) })
	return kept
}
