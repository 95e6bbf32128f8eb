package bolt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// layout is the version of a data directory's format: the names of its files and their
// buckets, keys and values. It must change whenever this build and earlier builds would
// otherwise misread each other's files.
const layout = "8"

// layoutFile contains the layout version and is created first. usedFile says that a server has had
// records in the directory. The other files may be there before the first server runs.
const (
	layoutFile  = "layout"
	usedFile    = "used"
	recordsFile = "sluice.db"
	keysFile    = "keys.db"
	limitsFile  = "limits.db"
	indexesFile = "indexes.db"
)

// CreateDir creates the data directory if necessary. It fails if dir has a layout that this
// build does not know, or data without a layout.
func CreateDir(dir string) error {
	known, err := checkDir(dir)
	if err != nil || known {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, layoutFile), []byte(layout), 0o600)
}

// checkDir reports whether dir has the layout of this build. It fails if dir has another
// layout, or data without a layout.
func checkDir(dir string) (known bool, err error) {
	// Look at the data first, because another process may be creating the directory.
	used := HasData(dir) || exists(dir, keysFile) || exists(dir, limitsFile) || exists(dir, indexesFile)
	version, err := os.ReadFile(filepath.Join(dir, layoutFile))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("read the layout of the data directory: %w", err)
	case string(version) == layout:
		return true, nil
	case len(version) == 0 && !used:
		return false, nil
	case len(version) == 0:
		version = []byte("unknown")
	}
	return false, fmt.Errorf("%s has data of another build of Sluice (layout %.20s, not %s): choose another directory with --data-dir or DATA_DIR; "+
		"to take the records along, export them with that build and import them with this one", dir, version, layout)
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

const (
	serviceBucket = "service" // of the file with the records
	idKey         = "id"
)

// serviceID returns the id of the service whose records are in db, the file of the directory dir. It
// creates a new id if the directory has never been used: a file that was copied there may be older
// than copies that clients keep. It fails if the file has no id although the directory has been used:
// the records are lost.
func serviceID(dir string, db *bbolt.DB) (id string, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(serviceBucket)); b != nil {
			id = string(b.Get([]byte(idKey)))
		}
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("read the id of the service: %w", err)
	case exists(dir, usedFile) && id == "":
		return "", lostRecords(dir)
	case !exists(dir, usedFile):
		id = rand.Text()
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(serviceBucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(idKey), []byte(id))
		})
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, usedFile), nil, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("store the id of the service: %w", err)
	}
	return id, nil
}

func lostRecords(dir string) error {
	return fmt.Errorf("%s is missing or empty, but %s has been used: restore the file from a backup; "+
		"to begin without records, remove %s, and copies of the lost records will be refused as those of another service",
		filepath.Join(dir, recordsFile), dir, filepath.Join(dir, usedFile))
}

// HasData reports whether a server has used the data directory dir.
func HasData(dir string) bool { return exists(dir, recordsFile) }
