package boltrecord

import (
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

const (
	// built is the name of the bucket that holds the progress of BuildIndex for each
	// index. The progress consists of the workspace, '#' and the id of the last indexed
	// record. For a complete index, the progress is the constant done.
	built = "built_indexes"
	done  = "done"

	// buildBatch is the number of records that one transaction of BuildIndex indexes.
	buildBatch = 10_000
)

// BuildIndex adds the existing records of a database to the index called name, which an
// earlier build of the program did not have. It calls the function add once for each
// record, with the bucket of the workspace and the value of the record. If BuildIndex is
// interrupted, the next call continues where it stopped. After it has succeeded, further
// calls do nothing. BuildIndex must be called before the first write.
func (w *Workspaces) BuildIndex(name string, add func(b *bbolt.Bucket, workspace string, value []byte) error) error {
	for complete := false; !complete; {
		err := w.db.Update(func(tx *bbolt.Tx) error {
			progress, err := tx.CreateBucketIfNotExists([]byte(built))
			if err != nil {
				return err
			}
			last := string(progress.Get([]byte(name)))
			for n := 0; n < buildBatch && last != done; n++ {
				if last, err = w.indexNext(tx, last, add); err != nil {
					return err
				}
			}
			complete = last == done
			return progress.Put([]byte(name), []byte(last))
		})
		if err != nil {
			return fmt.Errorf("build index %s: %w", name, err)
		}
	}
	return nil
}

// indexNext calls the function add for the record after the given position, and returns
// the position of that record. If no record follows, indexNext returns the constant done.
func (w *Workspaces) indexNext(tx *bbolt.Tx, position string, add func(b *bbolt.Bucket, workspace string, value []byte) error) (string, error) {
	workspaces := tx.Bucket([]byte(w.name)).Cursor()
	workspace, id, _ := strings.Cut(position, "#")
	for k, _ := workspaces.Seek([]byte(workspace)); k != nil; k, _ = workspaces.Next() {
		if string(k) != workspace {
			id = ""
		}
		b := Bucket(tx, w.path(string(k))...)
		for key, value := range Scan(b, id, "", true) {
			if string(key) != id {
				return string(k) + "#" + string(key), add(b, string(k), value)
			}
		}
	}
	return done, nil
}
