// Package bolt holds every store that keeps its data in a bbolt file, for a local server, a file
// per noun.
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

// workspaces is a top-level bucket of a database that holds one bucket for each
// workspace. It is safe for concurrent use.
//
// If the context is already done when a method is called, the method does nothing and
// returns an error of kind Unavailable. The methods do not check the context later,
// because a bbolt transaction cannot be interrupted.
type workspaces struct {
	db     *bbolt.DB
	name   string
	nested []string
}

// openWorkspaces returns the Workspaces in the bucket called name, which it creates if necessary. If
// the parameter nested is empty, the bucket of a workspace contains its records. Otherwise,
// nested is the path from the bucket of a workspace to the bucket of its records. The
// caller closes db.
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

// putIndex puts an entry into the bucket at a path of names. The entry maps key to the id of
// a record. Index creates the bucket if necessary.
func putIndex(tx *bbolt.Tx, key, id string, path ...string) error {
	b, err := createBucket(tx, path...)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), []byte(id))
}

// Update calls the function write with the bucket of a workspace, which Update creates if
// necessary. Update commits the changes if write returns no error. Concurrent calls share
// a transaction and its fsync. A call waits up to the MaxBatchDelay of db for other
// calls. If one of the writes in a shared transaction fails, the transaction is repeated
// without this write. The function write may therefore be called more than once, and only
// its last call takes effect.
func (w *workspaces) Update(ctx context.Context, op, workspace string, write func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.Batch(func(tx *bbolt.Tx) error {
		b, err := createBucket(tx, w.path(workspace)...)
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

// View calls the function read with the bucket of a workspace. If the bucket does not
// exist, View returns nil without calling read.
func (w *workspaces) View(ctx context.Context, op, workspace string, read func(*bbolt.Bucket) error) error {
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

// getRecord returns the record with an id in a workspace, or an error of kind NotFound if it
// does not exist. The parameter noun is "entity" or "event".
func getRecord[R any](ctx context.Context, w *workspaces, noun, workspace, id string) (r R, err error) {
	found := false
	err = w.View(ctx, "get "+noun, workspace, func(b *bbolt.Bucket) (err error) {
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

// createRecord puts the record r under key if no record with this key exists. It returns the
// record that is stored after the call, and reports whether the call stored it.
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

// putRecord puts the record r under key, in JSON, and replaces an existing record. Strings in
// attributes keep their bytes.
func putRecord(b *bbolt.Bucket, key string, r any) error {
	value, err := json.Marshal(r, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return b.Put([]byte(key), value)
}

// stored holds the options for decoding stored records. The options skip checks that were
// made before the records were stored.
var stored = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decode decodes a record that Create or Put stored. The record does not share memory
// with value, which is valid only during its transaction.
func decode[R any](value []byte) (r R, err error) {
	if err := json.Unmarshal(value, &r, stored); err != nil {
		return r, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// scan returns an iterator over the entries of b whose keys are between low and high,
// inclusive. It yields them in ascending or descending byte order of the keys. An empty
// bound means no bound. b may be nil. Keys and values are valid only during the
// transaction.
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

// start moves c to the entry at which a scan begins, and returns this entry. If the scan
// begins after the last entry, key is nil. The entry may be beyond the end of the scan.
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

// sweepLimit is the maximum number of entries that Expired returns. It is greater than 1,
// so that writes can remove expired records faster than they add new records.
const sweepLimit = 10

// expired returns the earliest entries of b whose time is before the given time, at most
// sweepLimit entries. The keys of b begin with the text of a record.Time. b may be nil.
// The caller may change b while it uses the result.
func expired(b *bbolt.Bucket, now record.Time) map[string]string {
	expired := make(map[string]string)
	for key, value := range scan(b, "", now.String(), true) {
		if expired[string(key)] = string(value); len(expired) == sweepLimit {
			break
		}
	}
	return expired
}

// lookup returns an iterator over the entries of an index. The value of an entry is an
// id. For each entry, the iterator yields the key of the entry and the value that b has
// for the id.
func lookup(b *bbolt.Bucket, keys iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, id := range keys {
			if !yield(key, b.Get(id)) {
				return
			}
		}
	}
}

// readPage decodes values until the page has the maximum number of records (limit) or is full
// (record.PageFull).
func readPage[R any](values iter.Seq2[[]byte, []byte], limit int) (page record.Page[R], err error) {
	pageBytes := 0
	for _, value := range values {
		n := len(page.Records)
		if page.More = n == limit || record.PageFull(n, pageBytes, len(value)); page.More {
			return page, nil
		}
		r, err := decode[R](value)
		if err != nil {
			return page, err
		}
		page.Records = append(page.Records, r)
		pageBytes += len(value)
	}
	return page, nil
}

// count returns the number of records that were created at or before the given time and
// had not expired by that time. created_at and expires_at are members of a record in
// JSON. A record without expires_at does not expire.
func count(values iter.Seq2[[]byte, []byte], until record.Time) (n int64, err error) {
	for _, value := range values {
		r, err := decode[struct {
			CreatedAt record.Time  `json:"created_at"`
			ExpiresAt *record.Time `json:"expires_at"`
		}](value)
		if err != nil {
			return 0, err
		}
		if r.CreatedAt.Compare(until) <= 0 && (r.ExpiresAt == nil || r.ExpiresAt.Compare(until) > 0) {
			n++
		}
	}
	return n, nil
}
