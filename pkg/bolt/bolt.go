// Package bolt implements the stores of the local server on bbolt, a Go file per noun. Records
// and jobs share a database that stays open. API keys and limits have files of their own, which
// are open only during an operation, so that commands can change them while a server runs.
package bolt

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// workspaces is a top-level bucket that holds one bucket for each workspace. It is safe for
// concurrent use.
//
// A method whose context is done when it is called, or when its turn to write comes, does
// nothing and returns an error of kind Unavailable. A transaction cannot be interrupted.
type workspaces struct {
	db     *bbolt.DB
	name   string
	nested []string
}

// openWorkspaces returns the workspaces in the bucket called name, which it creates if
// necessary. nested is the path from the bucket of a workspace to the bucket of its records,
// if they are not the same. The caller closes db.
func openWorkspaces(db *bbolt.DB, name string, nested ...string) (*workspaces, error) {
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
	return &workspaces{db: db, name: name, nested: nested}, nil
}

// path returns the path of the bucket that contains the records of a workspace.
func (w *workspaces) path(workspace string) []string {
	return append([]string{w.name, workspace}, w.nested...)
}

// bucketAt returns the bucket at a path of names, or nil if it does not exist.
func bucketAt(tx *bbolt.Tx, path ...string) *bbolt.Bucket {
	b := tx.Bucket([]byte(path[0]))
	for _, name := range path[1:] {
		if b == nil {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// createBucket returns the bucket at a path of names. It creates the buckets that do not
// exist.
func createBucket(tx *bbolt.Tx, path ...string) (*bbolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
	for _, name := range path[1:] {
		if err != nil {
			return nil, err
		}
		b, err = b.CreateBucketIfNotExists([]byte(name))
	}
	return b, err
}

// putIndex maps key to the id of a record in the bucket at a path of names, which it creates
// if necessary.
func putIndex(tx *bbolt.Tx, key, id string, path ...string) error {
	b, err := createBucket(tx, path...)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), []byte(id))
}

// update calls write with the bucket of a workspace, which it creates if necessary, and
// commits if write succeeds. Concurrent calls share a transaction and its fsync; a call waits
// up to the MaxBatchDelay of db for others. If one write of a transaction fails, the others
// are repeated without it, so write may be called more than once, and only its last call
// takes effect.
func (w *workspaces) update(ctx context.Context, op, workspace string, write func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	var late error
	err := w.db.Batch(func(tx *bbolt.Tx) error {
		if late = ctx.Err(); late != nil {
			return nil
		}
		b, err := createBucket(tx, w.path(workspace)...)
		if err != nil {
			return err
		}
		return write(b)
	})
	switch {
	case late != nil:
		return record.UnavailableError(op, late)
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// view calls read with the bucket of a workspace, if it exists.
func (w *workspaces) view(ctx context.Context, op, workspace string, read func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.View(func(tx *bbolt.Tx) error {
		b := bucketAt(tx, w.path(workspace)...)
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

// getRecord returns the record with an id in a workspace, or an error of kind NotFound. noun
// is "entity" or "event".
func getRecord[R any](ctx context.Context, w *workspaces, noun, workspace, id string) (r R, err error) {
	found := false
	err = w.view(ctx, "get "+noun, workspace, func(b *bbolt.Bucket) (err error) {
		if value := b.Get([]byte(id)); value != nil {
			found = true
			r, err = decode[R](value)
		}
		return err
	})
	if err == nil && !found {
		err = record.NotFoundError(noun, id)
	}
	return r, err
}

// createRecord puts r under key if the key is free. It returns the record that is stored after
// the call, and reports whether the call stored it.
func createRecord[R any](b *bbolt.Bucket, key string, r R) (stored R, created bool, err error) {
	if value := b.Get([]byte(key)); value != nil {
		stored, err = decode[R](value)
		return stored, false, err
	}
	if err := putRecord(b, key, r); err != nil {
		return stored, false, err
	}
	return r, true, nil
}

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

// start moves c to the entry at which a scan begins, and returns it. It may be beyond the end
// of the scan. key is nil after the last entry.
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

// sweepLimit is the maximum number of entries that expired returns. It is greater than 1, so
// that writes remove expired records faster than they add new ones.
const sweepLimit = 10

// expired returns the earliest entries of b, at most sweepLimit, whose keys begin with the
// text of a time before now. b may be nil, and may change while the result is used.
func expired(b *bbolt.Bucket, now record.Time) map[string]string {
	expired := make(map[string]string)
	for key, value := range scan(b, "", now.String(), true) {
		if expired[string(key)] = string(value); len(expired) == sweepLimit {
			break
		}
	}
	return expired
}

// lookup iterates over the entries of an index, whose values are ids. It yields the key of
// each and the value that b has for the id.
func lookup(b *bbolt.Bucket, keys iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, id := range keys {
			if !yield(key, b.Get(id)) {
				return
			}
		}
	}
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
// passed record.MaxPassedBytes of the values for which skip is true. The ID of Last is the key
// of the last value that was read.
func readPage[R any](values iter.Seq2[[]byte, []byte], limit int, skip func(R) bool) (page record.Page[R], err error) {
	pageBytes, passed := 0, 0
	for key, value := range values {
		n := len(page.Records)
		if page.More = n == limit || record.PageFull(n, pageBytes, len(value)) || passed >= record.MaxPassedBytes; page.More {
			return page, nil
		}
		r, err := decode[R](value)
		switch {
		case err != nil:
			return page, err
		case skip(r):
			passed += len(key) + len(value)
		default:
			page.Records = append(page.Records, r)
			pageBytes += len(value)
		}
		page.Last.ID = string(key)
	}
	return page, nil
}

// count counts the records that were created at or before until, are not tombstones and had not
// expired by then. A record without expires_at does not expire.
func count(values iter.Seq2[[]byte, []byte], until record.Time) (n int64, err error) {
	for _, value := range values {
		r, err := decode[struct {
			CreatedAt record.Time  `json:"created_at"`
			ExpiresAt *record.Time `json:"expires_at"`
			Deleted   bool         `json:"deleted"`
		}](value)
		if err != nil {
			return 0, err
		}
		if r.CreatedAt.Compare(until) <= 0 && !r.Deleted && (r.ExpiresAt == nil || r.ExpiresAt.Compare(until) > 0) {
			n++
		}
	}
	return n, nil
}
