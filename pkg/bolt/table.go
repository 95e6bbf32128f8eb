package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// table is the bucket of one kind of records R, in a database that other tables share. It has
// a bucket for each workspace, which has one for each index. by_id maps ids to records in JSON,
// and the other indexes map keys to ids. bbolt sorts keys by bytes. A table is safe for
// concurrent use.
//
// A method whose context is done when it is called, or when its turn to write comes, does
// nothing and returns an error of kind Unavailable. A transaction cannot be interrupted.
type table[R any] struct {
	db      *bbolt.DB
	writer  *writer
	name    string
	id      func(R) string
	entries func(R) []entry // where the indexes other than by_id have a record
}

// entry is a place in an index.
type entry struct {
	key   string
	index []string // path of its bucket in that of the workspace
}

const (
	byID     = "by_id"
	byExpiry = "by_expiry" // its keys are texts of a record.Position with the time at which a record expires
)

// openTable returns a table in db. The caller closes db.
func openTable[R any](db *bbolt.DB, name string, id func(R) string, entries func(R) []entry) (*table[R], error) {
	if db == nil {
		return nil, errors.New("bolt: a database is required")
	}
	return &table[R]{db: db, writer: newWriter(db), name: name, id: id, entries: entries}, nil
}

// update calls write in a transaction and commits if write succeeds, as writer.update does.
func (t *table[R]) update(ctx context.Context, op, workspace string, write func(records[R]) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	var late error
	err := t.writer.update(func(tx *bbolt.Tx) error {
		if late = ctx.Err(); late != nil {
			return nil
		}
		b, err := tx.CreateBucketIfNotExists([]byte(t.name))
		if err == nil {
			b, err = b.CreateBucketIfNotExists([]byte(workspace))
		}
		if err != nil {
			return err
		}
		return write(records[R]{t, b})
	})
	switch {
	case late != nil:
		return record.UnavailableError(op, late)
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// view calls read in a transaction.
func (t *table[R]) view(ctx context.Context, op, workspace string, read func(records[R]) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := t.db.View(func(tx *bbolt.Tx) error {
		return read(records[R]{t, nested(tx.Bucket([]byte(t.name)), workspace)})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// get returns a record in a transaction of its own, or an error of kind NotFound. noun is what
// errors call it.
func (t *table[R]) get(ctx context.Context, noun, workspace, id string) (r R, err error) {
	exists := false
	err = t.view(ctx, "get "+noun, workspace, func(all records[R]) (err error) {
		r, exists, err = all.get(id)
		return err
	})
	if err == nil && !exists {
		err = record.NotFoundError(noun, id)
	}
	return r, err
}

// countLimit is how many records a transaction counts, in about 20 ms. The file cannot grow
// while a transaction reads it, and everything else waits until it has grown.
const countLimit = 5_000

// count counts the records that were created at or before until, are not tombstones and had not
// expired by then. A record without expires_at does not expire. scan iterates over those whose
// keys are at least low.
func (t *table[R]) count(ctx context.Context, op, workspace, low string, until record.Time, scan func(all records[R], low string) iter.Seq2[[]byte, []byte]) (n int64, err error) {
	for more := true; more && err == nil; {
		err = t.view(ctx, op, workspace, func(all records[R]) error {
			read := 0
			for key, value := range scan(all, low) {
				if more = read == countLimit; more {
					low = string(key)
					return nil
				}
				read++
				counts, err := createdBy(until, value)
				if err != nil {
					return err
				}
				if counts {
					n++
				}
			}
			more = false
			return nil
		})
	}
	return n, err
}

// createdBy reports whether count counts the record in value.
func createdBy(until record.Time, value []byte) (bool, error) {
	r, err := decode[struct {
		CreatedAt record.Time  `json:"created_at"`
		ExpiresAt *record.Time `json:"expires_at"`
		Deleted   bool         `json:"deleted"`
	}](value)
	return r.CreatedAt.Compare(until) <= 0 && !r.Deleted && (r.ExpiresAt == nil || r.ExpiresAt.Compare(until) > 0), err
}

// records are the records of a workspace, in a transaction.
type records[R any] struct {
	*table[R]
	bucket *bbolt.Bucket // nil if the workspace has none
}

// nested returns the bucket at a path of names in b, or nil if it does not exist.
func nested(b *bbolt.Bucket, path ...string) *bbolt.Bucket {
	for _, name := range path {
		if b == nil {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// index returns the bucket of an index, or nil if it has no entry.
func (s records[R]) index(path ...string) *bbolt.Bucket { return nested(s.bucket, path...) }

// get returns a record and whether it exists.
func (s records[R]) get(id string) (r R, exists bool, err error) {
	b := s.index(byID)
	if b == nil {
		return r, false, nil
	}
	value := b.Get([]byte(id))
	if value == nil {
		return r, false, nil
	}
	r, err = decode[R](value)
	return r, true, err
}

// put stores r, which must not exist.
func (s records[R]) put(r R) error {
	b, err := s.bucket.CreateBucketIfNotExists([]byte(byID))
	if err == nil {
		err = putRecord(b, s.id(r), r)
	}
	for _, e := range s.entries(r) {
		b := s.bucket
		for _, name := range e.index {
			if err == nil {
				b, err = b.CreateBucketIfNotExists([]byte(name))
			}
		}
		if err == nil {
			err = b.Put([]byte(e.key), []byte(s.id(r)))
		}
	}
	return err
}

// remove removes r, which must exist.
func (s records[R]) remove(r R) error {
	err := s.index(byID).Delete([]byte(s.id(r)))
	for _, e := range s.entries(r) {
		err = errors.Join(err, s.index(e.index...).Delete([]byte(e.key)))
	}
	return err
}

// sweepLimit is how many records sweep removes at most. It is greater than 1, so that writes
// remove expired records faster than they add new ones.
const sweepLimit = 10

// sweep removes some of the records that expired before now.
func (s records[R]) sweep(now record.Time) error {
	var ids []string
	for _, id := range scan(s.index(byExpiry), "", now.String(), true) {
		if ids = append(ids, string(id)); len(ids) == sweepLimit {
			break
		}
	}
	for _, id := range ids {
		r, exists, err := s.get(id)
		if err == nil && exists {
			err = s.remove(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookup iterates over the entries of an index. It yields the key of each, and the record in JSON.
func (s records[R]) lookup(entries iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		b := s.index(byID)
		for key, id := range entries {
			if !yield(key, b.Get(id)) {
				return
			}
		}
	}
}
