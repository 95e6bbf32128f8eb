// Package boltrecord is shared by the stores that keep records in bbolt: buckets
// of workspaces, records as values, and pages of them.
package boltrecord

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// Workspaces is a bucket at the top of a database that holds one bucket for
// each workspace. It is safe for concurrent use.
//
// If the context is done at the call, its methods do nothing and return an error
// of kind Unavailable. They do not watch the context later: bbolt cannot be
// interrupted.
type Workspaces struct {
	db     *bbolt.DB
	name   string
	nested []string
}

// Open returns the Workspaces in the bucket called name, which it creates if
// needed. With nested, records are in a bucket of that name within the bucket of each
// workspace, and the methods use that one. The caller closes db.
func Open(db *bbolt.DB, name string, nested ...string) (*Workspaces, error) {
	if db == nil {
		return nil, fmt.Errorf("open bucket %s: a database is required", name)
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return &Workspaces{db: db, name: name, nested: nested}, nil
}

// path returns the path of the bucket of a workspace.
func (w *Workspaces) path(workspace string) []string {
	return append([]string{w.name, workspace}, w.nested...)
}

// Bucket returns the bucket at a path of names, or nil if it does not exist.
func Bucket(tx *bbolt.Tx, path ...string) *bbolt.Bucket {
	b := tx.Bucket([]byte(path[0]))
	for _, name := range path[1:] {
		if b == nil {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// CreateBucket returns the bucket at a path of names. It creates buckets that do
// not exist.
func CreateBucket(tx *bbolt.Tx, path ...string) (*bbolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
	for _, name := range path[1:] {
		if err != nil {
			return nil, err
		}
		b, err = b.CreateBucketIfNotExists([]byte(name))
	}
	return b, err
}

// Index puts the id of a record at key into the bucket at a path of names, which it
// creates if needed.
func Index(tx *bbolt.Tx, key, id string, path ...string) error {
	b, err := CreateBucket(tx, path...)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), []byte(id))
}

// Update calls write with the bucket of a workspace, which it creates if needed,
// and commits what write did unless write returned an error. Concurrent calls
// share a transaction, and so its fsync; a call waits up to db's MaxBatchDelay
// for others. write may be called more than once and only its last call counts:
// a transaction that fails is repeated without the write that failed.
func (w *Workspaces) Update(ctx context.Context, op, workspace string, write func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.Batch(func(tx *bbolt.Tx) error {
		b, err := CreateBucket(tx, w.path(workspace)...)
		if err != nil {
			return err
		}
		return write(b)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// View calls read with the bucket of a workspace, if it exists.
func (w *Workspaces) View(ctx context.Context, op, workspace string, read func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.View(func(tx *bbolt.Tx) error {
		b := Bucket(tx, w.path(workspace)...)
		if b == nil {
			return nil
		}
		return read(b)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Get returns the record that the bucket of a workspace has at an id, or an error of
// kind NotFound. noun is "entity" or "event".
func Get[R any](ctx context.Context, w *Workspaces, noun, workspace, id string) (r R, err error) {
	found := false
	err = w.View(ctx, "get "+noun, workspace, func(b *bbolt.Bucket) (err error) {
		if value := b.Get([]byte(id)); value != nil {
			found = true
			r, err = Decode[R](value)
		}
		return err
	})
	if err == nil && !found {
		err = record.NotFoundError(noun, id)
	}
	return r, err
}

// Create puts the record r at key unless b has a record there. It returns the
// record that b then has, and whether that is r.
func Create[R any](b *bbolt.Bucket, key string, r R) (stored R, created bool, err error) {
	if value := b.Get([]byte(key)); value != nil {
		stored, err = Decode[R](value)
		return stored, false, err
	}
	if err := Put(b, key, r); err != nil {
		return stored, false, err
	}
	return r, true, nil
}

// Put puts the JSON of the record r at key, in place of what b has there. Strings of
// attributes keep their bytes.
func Put(b *bbolt.Bucket, key string, r any) error {
	value, err := json.Marshal(r, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return b.Put([]byte(key), value)
}

// stored accepts without a check what was checked before it was stored.
var stored = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode reads a record that Create or Put stored. The record shares no memory
// with value, which is valid only during the transaction.
func Decode[R any](value []byte) (r R, err error) {
	if err := json.Unmarshal(value, &r, stored); err != nil {
		return r, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// Scan ranges over the keys and values of b from low to high, both included, in
// ascending or descending order of the bytes of the key. "" is no bound; b may be
// nil. Keys and values are valid only during the transaction.
func Scan(b *bbolt.Bucket, low, high string, ascending bool) iter.Seq2[[]byte, []byte] {
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

// start moves c to the first key of a scan, or nil if no key is in the range.
func start(c *bbolt.Cursor, low, high string, ascending bool) (key, value []byte) {
	if ascending {
		return c.Seek([]byte(low))
	}
	if high != "" {
		if after, _ := c.Seek([]byte(high + "\x00")); after != nil {
			return c.Prev()
		}
	}
	return c.Last()
}

// Lookup ranges over keys with the values that b has at the ids that keys has for
// values.
func Lookup(b *bbolt.Bucket, keys iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, id := range keys {
			if !yield(key, b.Get(id)) {
				return
			}
		}
	}
}

// Page decodes values until it has limit records or as many bytes as a page may
// hold (record.PageFull). more reports whether any values are left.
func Page[R any](values iter.Seq2[[]byte, []byte], limit int) (records []R, more bool, err error) {
	pageBytes := 0
	for _, value := range values {
		if len(records) == limit || record.PageFull(len(records), pageBytes, len(value)) {
			return records, true, nil
		}
		r, err := Decode[R](value)
		if err != nil {
			return nil, false, err
		}
		records = append(records, r)
		pageBytes += len(value)
	}
	return records, false, nil
}

// Count returns the number of records that were created at until or before.
func Count(values iter.Seq2[[]byte, []byte], until record.Time) (n int64, err error) {
	for _, value := range values {
		created, err := Decode[struct {
			At record.Time `json:"created_at"`
		}](value)
		if err != nil {
			return 0, err
		}
		if created.At.Compare(until) <= 0 {
			n++
		}
	}
	return n, nil
}
