package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/job"
)

// Report is what Check finds in a data directory.
type Report struct {
	Entities, Tombstones, Events, Jobs, Keys int64
	Bytes                                    int64 // size of the file with the records

	Problems []string // the first maxProblems; none if all is well
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Check reads everything in the data directory dir, which no server is using. It finds pages and
// records that are not as they were written, and indexes that do not agree with the records.
func Check(ctx context.Context, dir string) (*Report, error) {
	known, err := checkDir(dir)
	if err = errors.Join(err, noData(dir, known)); err != nil {
		return nil, err
	}
	r := new(Report)
	err = r.file(dir, recordsFile, func(tx *bbolt.Tx) error {
		info, err := os.Stat(filepath.Join(dir, recordsFile))
		if err != nil {
			return err
		}
		r.Bytes = info.Size()
		return r.records(ctx, dir, tx)
	})
	for _, f := range sharedFiles {
		if err == nil && !isEmpty(filepath.Join(dir, f.name)) {
			err = r.file(dir, f.name, func(tx *bbolt.Tx) error { return r.shared(f, tx.Bucket([]byte(f.bucket))) })
		}
	}
	return r, err
}

// file checks the pages of a file, and calls content if these are as they were written.
func (r *Report) file(dir, name string, content func(*bbolt.Tx) error) error {
	path := filepath.Join(dir, name)
	err := viewFile(path, func(tx *bbolt.Tx) error {
		s, err := verifyFile(path)
		if err != nil {
			return err
		}
		for _, p := range s.problems {
			r.problem("%s: %s", name, p)
		}
		if len(s.problems) > 0 && !s.last {
			return nil
		}
		return content(tx)
	})
	if e, ok := errors.AsType[*DamageError](err); ok {
		r.problem("%s: %s", name, e.What)
		return nil
	}
	return inUse(path, err)
}

func (r *Report) shared(f sharedFile, b *bbolt.Bucket) error {
	for key, value := range scan(b, "", "", true) {
		if f.name == keysFile {
			r.Keys++
		}
		if err := f.check(value); err != nil {
			r.problem("%s: %q: %v", f.name, key, err)
		}
	}
	return nil
}

// records checks the tables.
func (r *Report) records(ctx context.Context, dir string, tx *bbolt.Tx) error {
	declared, err := (&Indexes{newLockedFile(filepath.Join(dir, indexesFile), indexesBucket)}).List(ctx)
	if err != nil {
		return nil //nolint:nilerr // Check also reads that file by itself
	}
	s := &Stores{Indexed: new(index.Current), db: tx.DB()}
	if err := s.tables(entity.Clock{}); err != nil {
		return err
	}
	partial := make(map[string]bool) // indexes that a server is building or removing
	var ready []index.Declaration
	for _, d := range declared {
		if d.State == index.Ready {
			ready = append(ready, d)
		} else {
			partial[indexPath(d.Workspace, keysPath(d))] = true
		}
	}
	s.Indexed.Store(index.NewSet(ready))
	if _, err := newestStamp(tx); err != nil {
		r.problem("%s: %v", recordsFile, err)
	}
	isJob := func(job.Job) { r.Jobs++ }
	return cmp.Or(
		checkTable(ctx, r, tx, s.Events.table, partial, func(event.Event) { r.Events++ }),
		checkTable(ctx, r, tx, s.ExportJobs.table, nil, isJob),
		checkTable(ctx, r, tx, s.ErasureJobs.table, nil, isJob),
		checkTable(ctx, r, tx, s.Entities.table, partial, func(c entity.Change) {
			if c.Deleted {
				r.Tombstones++
			} else {
				r.Entities++
			}
		}))
}

// keysPath returns the path of the bucket with the keys of d.
func keysPath(d index.Declaration) []string {
	if d.OfEvents() {
		return []string{byName}
	}
	return attributePath(d)
}

func indexPath(workspace string, path []string) string {
	return strings.Join(append([]string{workspace}, path...), "\x00")
}

// checkTable checks all records of a table, and the indexes except those whose path is in partial.
func checkTable[R any](ctx context.Context, r *Report, tx *bbolt.Tx, t *table[R], partial map[string]bool, count func(R)) error {
	for workspace := range scan(tx.Bucket([]byte(t.name)), "", "", true) {
		all := records[R]{t, tx, nested(tx.Bucket([]byte(t.name)), string(workspace)), string(workspace)}
		where := fmt.Sprintf("%s: %s of the workspace %q", recordsFile, t.name, workspace)
		want := make(map[string]int) // how many entries each index has
		var counted uint64
		for key, value := range scan(all.index(byKey), "", "", true) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			record, err := t.decode(value)
			if err == nil && t.key(record) != string(key) {
				err = errors.New("it is another one")
			}
			if err != nil {
				r.problem("%s: %q: %v", where, key, err)
				continue
			}
			count(record)
			if t.counts != nil && t.counts(record) {
				counted++
			}
			for _, e := range t.entries(all.workspace, record) {
				want[e.index[0]]++
				if !all.has(e, key) {
					r.problem("%s: %q is not in the index %s", where, key, strings.Join(e.index, "/"))
				}
			}
		}
		for name := range scan(all.bucket, "", "", true) {
			if string(name) == byKey {
				if kept := all.index(byKey).Sequence(); kept != counted {
					r.problem("%s: the number of records that is kept is %d instead of %d", where, kept, counted)
				}
				continue
			}
			if got := countEntries(all.index(string(name)), all.workspace, []string{string(name)}, partial); got != want[string(name)] {
				r.problem("%s: the index %s has %d entries instead of %d", where, name, got, want[string(name)])
			}
		}
	}
	return nil
}

// has reports whether e, an entry of the record with this key, is as put writes it.
func (s records[R]) has(e entry, key []byte) bool {
	b := s.index(e.index...)
	if b == nil {
		return false
	}
	value := b.Get([]byte(e.key))
	if e.key == string(key) {
		key = nil
	}
	return value != nil && bytes.Equal(value, key)
}

func countEntries(b *bbolt.Bucket, workspace string, path []string, partial map[string]bool) (n int) {
	if partial[indexPath(workspace, path)] {
		return 0
	}
	for key, value := range scan(b, "", "", true) {
		if value == nil { // a bucket
			n += countEntries(b.Bucket(key), workspace, append(slices.Clone(path), string(key)), partial)
		} else {
			n++
		}
	}
	return n
}
