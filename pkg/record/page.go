package record

import "slices"

// MaxPageBytes is about the size of the records on a page. A Lambda function can return 6 MB
// (6,291,556 bytes, AWS Lambda quotas), and Lambda encodes the body as a JSON string, which
// can double its size.
const MaxPageBytes = 2_500_000

// MaxPassedBytes is how many bytes of deleted records a page may pass over. DynamoDB ends a
// response at the same size.
const MaxPassedBytes = 1 << 20

// PageFull reports whether a page of count records and pageBytes has no room for size more
// bytes. An empty page always has.
func PageFull(count, pageBytes, size int) bool {
	return count > 0 && pageBytes+size > MaxPageBytes
}

// Page is a page of a list.
type Page[R any] struct {
	Records []R
	More    bool     // whether others follow
	Last    Position // the last record that was read, if Records may lack it; the next page starts after it
}

// Filter keeps the records that show accepts. Last is the position of the last record that was
// read, so a page may be empty even if More is true.
func Filter[R any](p Page[R], position func(R) Position, show func(R) bool) Page[R] {
	kept := Page[R]{More: p.More}
	if n := len(p.Records); n > 0 {
		kept.Last = position(p.Records[n-1])
	}
	kept.Records = slices.DeleteFunc(p.Records, func(r R) bool { return !show(r) })
	return kept
}
