// Package bolt implements the stores of the local server on bbolt, a Go file per noun. Records
// and jobs share a database that stays open. API keys and limits have files of their own, which
// are open only during an operation, so that commands can change them while a server runs.
package bolt

import (
	"fmt"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// putRecord puts r under key, as JSON, in place of an existing record. Strings in attributes
// keep their bytes.
func putRecord(b *bbolt.Bucket, key string, r any) error {
	value, err := json.Marshal(r, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return b.Put([]byte(key), value)
}

// stored skips the checks that were made before a record was stored.
var stored = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode decodes a record that putRecord stored. The result does not share memory with value,
// which is valid only during its transaction.
func decode[R any](value []byte) (r R, err error) {
	if err := json.Unmarshal(value, &r, stored); err != nil {
		return r, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// scan iterates over the entries of b whose keys are between low and high, inclusive, in
// ascending or descending byte order. An empty bound means no bound. b may be nil. Keys and
// values are valid only during the transaction.
func scan(b *bbolt.Bucket, low, high string, ascending bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if b == nil {
			return
		}
		c := b.Cursor()
		step := c.Prev
		if ascending {
			step = c.Next
		}
		for k, v := start(c, low, high, ascending); k != nil; k, v = step() {
			beyond := ascending && high != "" && string(k) > high || !ascending && string(k) < low
			if beyond || !yield(k, v) {
				return
			}
		}
	}
}

// following returns the first key after another in byte order.
func following(key string) string { return key + "\x00" }

// start moves c to the entry at which a scan begins, and returns it. It may be beyond the end
// of the scan. key is nil after the last entry.
func start(c *bbolt.Cursor, low, high string, ascending bool) (key, value []byte) {
	if ascending {
		return c.Seek([]byte(low))
	}
	if high != "" {
		if after, _ := c.Seek([]byte(following(high))); after != nil {
			return c.Prev()
		}
	}
	return c.Last()
}

// decodeAll decodes all values.
func decodeAll[R any](values iter.Seq2[[]byte, []byte]) (records []R, err error) {
	for _, value := range values {
		r, err := decode[R](value)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// readPage decodes values until the page has limit records, is full (record.PageFull) or has
// passed record.MaxPassedBytes of the values for which skip is true. skip may be nil. The ID
// of Last is the key of the last value that was read.
func readPage[R any](values iter.Seq2[[]byte, []byte], limit int, skip func(R) bool) (page record.Page[R], err error) {
	var last []byte
	pageBytes, passed := 0, 0
	for key, value := range values {
		n := len(page.Records)
		if page.More = n == limit || record.PageFull(n, pageBytes, len(value)) || passed >= record.MaxPassedBytes; page.More {
			break
		}
		r, err := decode[R](value)
		switch {
		case err != nil:
			return page, err
		case skip != nil && skip(r):
			passed += len(key) + len(value)
		default:
			page.Records = append(page.Records, r)
			pageBytes += len(value)
		}
		last = key
	}
	page.Last.ID = string(last)
	return page, nil
}
