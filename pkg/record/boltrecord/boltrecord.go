// Package boltrecord is what the stores of records on bbolt share: buckets of
// workspaces, records as values, and pages of them.
package boltrecord

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"sluice/pkg/record"
)

// Workspaces is a bucket at the top of a database that holds one bucket for
// each workspace. It is safe for concurrent use.
//
// Its methods fail with kind Unavailable, and do nothing, when their context is
// done at the call. What has begun runs to its end: bbolt cannot be interrupted.
type Workspaces struct {
	db   *bbolt.DB
	name []byte
}

// Open makes Workspaces of the bucket called name, which it creates if need be.
// The caller closes db.
func Open(db *bbolt.DB, name string) (*Workspaces, error) {
	err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte(name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return &Workspaces{db: db, name: []byte(name)}, nil
}

// Update calls write with the bucket of a workspace, which it creates if need
// be, and commits what write did unless that failed. Concurrent calls share a
// transaction, and so its fsync; a lone one waits for company for db's
// MaxBatchDelay. write may be called more than once and only the last call
// counts: a transaction that fails is repeated without the write that broke it.
func (w *Workspaces) Update(ctx context.Context, op, workspace string, write func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.Batch(func(tx *bbolt.Tx) error {
		b, err := tx.Bucket(w.name).CreateBucketIfNotExists([]byte(workspace))
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

// View calls read with the bucket of a workspace, unless there is none.
func (w *Workspaces) View(ctx context.Context, op, workspace string, read func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return record.UnavailableError(op, err)
	}
	err := w.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(w.name).Bucket([]byte(workspace))
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

// Create puts r, a record, at key unless b holds one there. It returns the
// record that b holds afterwards and whether that is r.
func Create[R any](b *bbolt.Bucket, key string, r R) (stored R, created bool, err error) {
	if value := b.Get([]byte(key)); value != nil {
		stored, err = Decode[R](value)
		return stored, false, err
	}
	value, err := encode(r)
	if err != nil {
		return stored, false, err
	}
	if err := b.Put([]byte(key), value); err != nil {
		return stored, false, err
	}
	return r, true, nil
}

// encode is r as the value of a key: its JSON. HTML is not escaped, so that
// attributes keep their bytes; json.Marshal would change them.
func encode(r any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode reads a record that Create stored. It keeps nothing of value, whose
// bytes are gone with the transaction.
func Decode[R any](value []byte) (r R, err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// Scan ranges over the keys and values of b by the bytes of key, ascending or
// descending. It begins beyond the key after, which need not be there; ""
// begins at the end of b. The bytes are gone with the transaction.
func Scan(b *bbolt.Bucket, after string, ascending bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := b.Cursor()
		step := c.Prev
		if ascending {
			step = c.Next
		}
		for k, v := start(c, after, ascending); k != nil; k, v = step() {
			if !yield(k, v) {
				return
			}
		}
	}
}

// start moves c to the first key beyond after; nil if there is none.
func start(c *bbolt.Cursor, after string, ascending bool) (key, value []byte) {
	switch {
	case after == "" && ascending:
		return c.First()
	case after == "":
		return c.Last()
	}
	k, v := c.Seek([]byte(after)) // the first key not below after
	switch {
	case !ascending && k == nil:
		return c.Last()
	case !ascending:
		return c.Prev()
	case string(k) == after:
		return c.Next()
	default:
		return k, v
	}
}

// Page decodes values, each beside its key, until it has limit of them or as
// many bytes as a page may hold (record.PageFull). more says whether any are left.
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
