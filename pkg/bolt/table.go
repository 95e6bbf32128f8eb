package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// table is a bucket for one kind of record. Tables share a database. A table has a bucket for
// each workspace. In it, one bucket has the records by key, and each index has its own bucket.
// An index maps its own keys to record keys, or to an empty value if both keys are the same.
// bbolt sorts keys by bytes. A table is safe for concurrent use.
//
// If the context is done when a method is called, or when its turn to write comes, the method
// does nothing and returns an error with code Unavailable. A running transaction is not interrupted.
type table[R any] struct {
	db       *bbolt.DB
	writer   *writer
	observer *Observer // may be nil
	damage   *damage
	name     string
	schema[R]
}

type schema[R any] struct {
	key     func(R) string // the id of the record, unless the table has the index by_id
	fields  func(*fields, *R)
	entries func(workspace string, r R) []entry // the record's entries in the indexes
	counts  func(R) bool                        // whether stored counts the record; nil if it counts none
}

type entry struct {
	key   string
	index []string // path of the index's bucket within the workspace's bucket
}

const (
	byKey    = "by_key"    // holds the records themselves
	byID     = "by_id"     // an index by id, for a table whose records have other keys
	byExpiry = "by_expiry" // an index by the text form of record.Position{At: time of expiry, ID: id}
)

func openTable[R any](db *bbolt.DB, name string, s schema[R]) (*table[R], error) {
	if db == nil {
		return nil, errors.New("bolt: a database is required")
	}
	w := newWriter(db)
	return &table[R]{db: db, writer: w, damage: w.damage, name: name, schema: s}, nil
}

// update calls write, perhaps more than once (see writer.update), and commits if write succeeds.
func (t *table[R]) update(ctx context.Context, op, workspace string, write func(records[R]) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	var late error
	err := t.writer.update(func(tx *bbolt.Tx) error {
		if late = ctx.Err(); late != nil {
			return nil
		}
		all, err := t.in(tx, workspace)
		if err != nil {
			return err
		}
		return write(all)
	})
	if late != nil {
		return record.UnavailableError(op, late)
	}
	return storeError(op, err)
}

// storeError says whether an operation can succeed later: when a full disk has room again, or when a
// damaged file has been restored.
func storeError(op string, err error) error {
	_, damaged := errors.AsType[*DamageError](err)
	switch {
	case damaged || errors.Is(err, syscall.ENOSPC):
		return record.UnavailableError(op, err)
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// in gives access to the records within tx, which must be a write transaction.
func (t *table[R]) in(tx *bbolt.Tx, workspace string) (records[R], error) {
	b, err := tx.CreateBucketIfNotExists([]byte(t.name))
	if err == nil {
		b, err = b.CreateBucketIfNotExists([]byte(workspace))
	}
	return records[R]{t, tx, b, workspace}, err
}

func (t *table[R]) view(ctx context.Context, op, workspace string, read func(records[R]) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	defer t.observer.read(time.Now())
	return storeError(op, t.viewAll(func(tx *bbolt.Tx) error {
		return read(records[R]{t, tx, nested(tx.Bucket([]byte(t.name)), workspace), workspace})
	}))
}

func (t *table[R]) viewAll(read func(*bbolt.Tx) error) error {
	return t.damage.view(t.db, read)
}

// get reads a record in its own transaction. If the record does not exist, the error has kind
// NotFound. noun, such as "event", names the record in errors.
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

// countLimit is how many records one transaction counts, unless they fill a page sooner
// (record.PageFull). That takes about 20 ms. The file cannot grow while a transaction reads it, so a
// longer transaction could hold up everything else.
const countLimit = 5_000

// count returns the number of records for which accept returns true. The scan starts at low.
func (t *table[R]) count(ctx context.Context, op, workspace, low string, scan func(all records[R], low string) iter.Seq2[[]byte, []byte], accept func(R) bool) (n int64, err error) {
	for more := true; more && err == nil; {
		err = t.view(ctx, op, workspace, func(all records[R]) error {
			read, size := 0, 0
			for key, value := range scan(all, low) {
				if more = read == countLimit || record.PageFull(read, size, len(value)); more {
					low = string(key)
					return nil
				}
				read, size = read+1, size+len(value)
				r, err := t.decode(value)
				if err != nil {
					return err
				}
				if accept(r) {
					n++
				}
			}
			more = false
			return nil
		})
	}
	return n, err
}

// records gives access to the records of one workspace within a transaction.
type records[R any] struct {
	*table[R]
	tx        *bbolt.Tx
	bucket    *bbolt.Bucket // nil if the workspace has no bucket yet
	workspace string
}

// nested returns nil if there is no bucket at the path.
func nested(b *bbolt.Bucket, path ...string) *bbolt.Bucket {
	for _, name := range path {
		if b == nil {
			return nil
		}
		b = b.Bucket([]byte(name))
	}
	return b
}

// index returns nil if the index has no bucket yet.
func (s records[R]) index(path ...string) *bbolt.Bucket { return nested(s.bucket, path...) }

func (s records[R]) get(id string) (r R, exists bool, err error) {
	key := []byte(id)
	if keys := s.index(byID); keys != nil {
		if key = keys.Get(key); key == nil {
			return r, false, nil
		}
	}
	return s.at(key)
}

// at is like get, but takes the record's key instead of its id.
func (s records[R]) at(key []byte) (r R, exists bool, err error) {
	b := s.index(byKey)
	if b == nil {
		return r, false, nil
	}
	value := b.Get(key)
	if value == nil {
		return r, false, nil
	}
	r, err = s.decode(value)
	return r, true, err
}

// fill is how full bbolt leaves a page that it splits. The default of 0.5 wastes space if keys
// arrive in time order, because such a page gets no more entries. Random keys need some room.
const fill = 0.7

// stored returns the number of records that count, in all workspaces. It is kept as the sequence of
// each bucket byKey, a number that bbolt stores with a bucket and does not use.
func (t *table[R]) stored() (n int64, err error) {
	err = t.viewAll(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(t.name))
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(workspace []byte) error {
			if b := nested(all, string(workspace), byKey); b != nil {
				n += int64(b.Sequence())
			}
			return nil
		})
	})
	return n, err
}

// tally adds n to the number of records that count, if r does.
func (s records[R]) tally(r R, n int64) error {
	if s.counts == nil || !s.counts(r) {
		return nil
	}
	b := s.index(byKey)
	return b.SetSequence(uint64(int64(b.Sequence()) + n))
}

// put stores r, in place of was if there is a record with that key, which exists says. It leaves alone
// what both have in the indexes, because each entry that it touches is another page to write. If an
// attribute was declared after was was put, its index has no such entry before it is built.
func (s records[R]) put(r, was R, exists bool) error {
	value, err := s.encode(r)
	key, added := s.key(r), s.entries(s.workspace, r)
	if exists {
		before := s.entries(s.workspace, was)
		gone := without(before, added)
		added = without(added, before)
		err = errors.Join(err, s.tally(was, -1), s.drop(gone))
	}
	if err == nil {
		err = errors.Join(s.add([]string{byKey}, key, value), s.tally(r, 1))
	}
	for _, e := range added {
		value = []byte(key)
		if e.key == key {
			value = nil
		}
		if err == nil {
			err = s.add(e.index, e.key, value)
		}
	}
	return err
}

// without returns the entries that are not among others.
func without(entries, others []entry) (rest []entry) {
	for _, e := range entries {
		if !slices.ContainsFunc(others, e.equal) {
			rest = append(rest, e)
		}
	}
	return rest
}

func (e entry) equal(o entry) bool { return e.key == o.key && slices.Equal(e.index, o.index) }

// add creates the bucket at path if it does not exist.
func (s records[R]) add(path []string, key string, value []byte) (err error) {
	b := s.bucket
	for _, name := range path {
		if b, err = b.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	b.FillPercent = fill
	return b.Put([]byte(key), value)
}

// remove requires that r exists.
func (s records[R]) remove(r R) error {
	return errors.Join(s.index(byKey).Delete([]byte(s.key(r))), s.tally(r, -1), s.drop(s.entries(s.workspace, r)))
}

// drop removes entries from the indexes.
func (s records[R]) drop(entries []entry) (err error) {
	for _, e := range entries {
		if b := s.index(e.index...); b != nil { // nil if the attribute was declared after the record was put
			err = errors.Join(err, b.Delete([]byte(e.key)))
		}
	}
	return err
}

// A write removes up to sweepLimit expired records, but no more than sweepLeast if they have more
// than sweepBytes. It removes more than one, so that writes remove records faster than they add
// them.
const (
	sweepLimit = 10
	sweepLeast = 2
	sweepBytes = 64 << 10
)

// sweep removes some of the records that expired before now.
func (s records[R]) sweep(now record.Time) error {
	var keys [][]byte
	for _, key := range scan(s.index(byExpiry), "", now.String(), true) {
		if keys = append(keys, bytes.Clone(key)); len(keys) == sweepLimit {
			break
		}
	}
	size := 0
	for i, key := range keys {
		size += len(s.index(byKey).Get(key))
		if i >= sweepLeast && size > sweepBytes {
			return nil
		}
		r, exists, err := s.at(key)
		if err == nil && exists {
			err = s.remove(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookup yields the key of each index entry, and the value of the record to which the entry refers.
// Entries with the keys of their records are in the order of these, so lookup looks beside the record
// before first, which takes less time than a search from the root.
func (s records[R]) lookup(entries iter.Seq2[[]byte, []byte], ascending bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		b := s.index(byKey)
		var c *bbolt.Cursor // at the record before; nil at the first
		for at, key := range entries {
			var beside, value []byte
			switch {
			case len(key) > 0:
				value = b.Get(key)
			case c == nil:
				c = b.Cursor()
			case ascending:
				beside, value = c.Next()
			default:
				beside, value = c.Prev()
			}
			if len(key) == 0 && !bytes.Equal(beside, at) {
				if beside, value = c.Seek(at); !bytes.Equal(beside, at) {
					value = nil
				}
			}
			if !yield(at, value) {
				return
			}
		}
	}
}

// page decodes values and leaves out those for which skip returns true; skip may be nil. A
// page ends when it has limit records, when it is full (record.PageFull), or when the total size
// of what is left out reaches record.MaxPassedBytes. Next is then the key of the last value read.
func (t *table[R]) page(values iter.Seq2[[]byte, []byte], limit int, skip func(R) bool) (page record.Page[R], err error) {
	var last []byte
	pageBytes, passed := 0, 0
	for key, value := range values {
		n := len(page.Records)
		if n == limit || record.PageFull(n, pageBytes, len(value)) || passed >= record.MaxPassedBytes {
			page.Next = record.Cursor(last)
			break
		}
		r, err := t.decode(value)
		switch {
		case err != nil:
			return page, err
		case skip != nil && skip(r):
			passed += len(key) + len(value)
		default:
			if n == 0 {
				page.Records = make([]R, 0, limit)
			}
			page.Records = append(page.Records, r)
			pageBytes += len(value)
		}
		last = key
	}
	return page, nil
}
