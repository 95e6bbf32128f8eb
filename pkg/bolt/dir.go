package bolt

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/index"
	"sluice/pkg/ratelimit"
)

// layout is the version of a data directory's format: the names of its files and their
// buckets, keys and values. It must change whenever this build and earlier builds would
// otherwise misread each other's files.
const layout = "9"

// layoutFile contains the layout version and is created first. usedFile says that a server has had
// records in the directory. The other files may be there before the first server runs.
const (
	layoutFile  = "layout"
	usedFile    = "used"
	recordsFile = "sluice.db"
	keysFile    = "keys.db"
	limitsFile  = "limits.db"
	indexesFile = "indexes.db"
	sumsFile    = "usage.db"
	auditFile   = "audit.db"
)

// sharedFiles are the bbolt files that commands may change while a server runs. Each has one bucket.
var sharedFiles = []sharedFile{
	{keysFile, keysBucket, decodable[access.Key]},
	{limitsFile, limitsBucket, decodable[ratelimit.Row]},
	{indexesFile, indexesBucket, decodable[index.Declaration]},
	{sumsFile, sumsBucket, decodable[int64]},
	{auditFile, auditBucket, decodable[audit.Record]},
}

type sharedFile struct {
	name, bucket string
	check        func(value []byte) error
}

func decodable[R any](value []byte) error {
	_, err := decode[R](value)
	return err
}

// ExportsDir is the subdirectory for the files of export jobs.
const ExportsDir = "exports"

// CreateDir creates the data directory if necessary. It fails if dir has a layout that this
// build does not know, or data without a layout.
func CreateDir(dir string) error {
	if _, err := checkDir(dir); err != nil {
		return err
	}
	if text, err := os.ReadFile(filepath.Join(dir, layoutFile)); err == nil && string(text) == layout {
		return nil
	}
	if !exists(dir, "") {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
	}
	return writeFile(filepath.Join(dir, layoutFile), layout)
}

// checkDir reports whether dir has the layout of this build. It fails if dir has another
// layout, or data without a layout.
func checkDir(dir string) (known bool, err error) {
	version, err := layoutOf(dir)
	switch {
	case err != nil:
		return false, err
	case version == layout, version == "":
		return version == layout, nil
	case convertible(version):
		return false, fmt.Errorf("%s has the layout %s of an earlier version: start \"sluice serve\" with it once, which makes a backup and converts it", dir, version)
	}
	return false, fmt.Errorf("%s has data of another build of Sluice (layout %.20s, not %s): choose another directory with --data-dir or DATA_DIR; "+
		"to take the records along, export them with that build and import them with this one", dir, version, layout)
}

// layoutOf returns the layout of dir, or "" if dir has no data yet. Builds before layout 9 could
// lose the content of the file when the machine lost power, and since then the file with the records
// says its layout too.
func layoutOf(dir string) (version string, err error) {
	// Look at the data first, because another process may be creating the directory.
	used := HasData(dir) || slices.ContainsFunc(sharedFiles, func(f sharedFile) bool { return exists(dir, f.name) })
	text, err := os.ReadFile(filepath.Join(dir, layoutFile))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the layout of the data directory: %w", err)
	case len(text) > 0:
		return string(text), nil
	case !used:
		return "", nil
	}
	created := err == nil
	path := filepath.Join(dir, recordsFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		err := viewFile(path, func(tx *bbolt.Tx) error {
			if b := tx.Bucket([]byte(serviceBucket)); b != nil {
				version = string(b.Get([]byte(layoutKey)))
			}
			return nil
		})
		return cmp.Or(version, "unknown"), err
	}
	if created && !exists(dir, usedFile) { // the process ended before it created the first record
		return "", nil
	}
	return "unknown", nil
}

// writeFile creates or replaces a file. It survives a loss of power, and is never incomplete.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in dir survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

const (
	serviceBucket = "service" // of the file with the records
	idKey         = "id"
	layoutKey     = "layout"
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
			return errors.Join(b.Put([]byte(idKey), []byte(id)), b.Put([]byte(layoutKey), []byte(layout)))
		})
	}
	if err == nil && !exists(dir, usedFile) {
		err = writeFile(filepath.Join(dir, usedFile), "")
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
