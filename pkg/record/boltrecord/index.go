package boltrecord

import (
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

const (
	// built is the bucket that has for each index how far BuildIndex has come: the
	// workspace, '#' and the id of the last record, or done.
	built = "built_indexes"
	done  = "done"

	// buildBatch is how many records a transaction of BuildIndex indexes.
	buildBatch = 10_000
)

// BuildIndex indexes the records of a database of an earlier build, which did not
// have the index called name: it calls add with the bucket of a workspace and the
// value of each record there. A build that was interrupted continues where it stopped.
// BuildIndex does nothing once it has succeeded. It must be called before the first
// write.
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

// indexNext calls add for the record after last, and returns its place in turn.
func (w *Workspaces) indexNext(tx *bbolt.Tx, last string, add func(b *bbolt.Bucket, workspace string, value []byte) error) (string, error) {
	workspaces := tx.Bucket([]byte(w.name)).Cursor()
	workspace, id, _ := strings.Cut(last, "#")
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
