// Package bolt implements the local server's stores with bbolt. Records and jobs share a
// database that stays open. API keys, limits and indexes have their own files, which are open
// only during an operation, so that commands can change them while a server runs.
package bolt

import (
	"fmt"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"
)

// encode preserves strings in attributes byte for byte.
func encode(r any) ([]byte, error) {
	value, err := json.Marshal(r, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return value, nil
}

// putRecord overwrites any existing record.
func putRecord(b *bbolt.Bucket, key string, r any) error {
	value, err := encode(r)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

// stored turns off checks in decoding. Every record passed them before it was stored.
var stored = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode returns a record that shares no memory with value, which is valid only during the
// transaction.
func decode[R any](value []byte) (r R, err error) {
	if err := json.Unmarshal(value, &r, stored); err != nil {
		return r, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, nil
}

// scan iterates over the entries of b with keys from low to high, inclusive, in byte order or
// in reverse. An empty low or high means no bound, and b may be nil. Keys and values are valid
// only during the transaction.
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

// following appends a zero byte, which gives the next possible key in byte order.
func following(key string) string { return key + "\x00" }

// start moves c to where a scan starts. The entry there may already lie beyond the end of the
// scan. key is nil if there is no entry.
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
