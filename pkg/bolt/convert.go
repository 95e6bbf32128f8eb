package bolt

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// conversion makes a data directory of the layout from one of the layout to.
type conversion struct {
	from, to string

	// run changes the files, which no server is using. It may have been killed at any point of an
	// earlier run, so it must know what it has changed already.
	run func(dir string) error
}

// conversions are all conversions since layout 9, in order.
var conversions []conversion

func convertible(version string) bool {
	return slices.ContainsFunc(conversions, func(c conversion) bool { return c.from == version })
}

// convert brings dir to the newest layout that the conversions lead to. It calls before, with the
// layout of dir, unless there is nothing to convert.
func convert(dir string, all []conversion, before func(version string) error) error {
	version, err := layoutOf(dir)
	begun := false
	for _, c := range all {
		if err != nil || c.from != version {
			continue
		}
		if !begun {
			err = before(version)
		}
		if begun = true; err == nil {
			err = c.run(dir)
		}
		if err == nil {
			err = setLayout(dir, c.to)
		}
		if err != nil {
			return fmt.Errorf("convert %s from layout %s to %s: %w", dir, version, c.to, err)
		}
		version = c.to
	}
	return err
}

// setLayout stores the layout of a directory in both places.
func setLayout(dir, version string) error {
	path := filepath.Join(dir, recordsFile)
	if !isEmpty(path) {
		err := updateFile(path, func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(serviceBucket))
			if b == nil {
				return nil
			}
			return b.Put([]byte(layoutKey), []byte(version))
		})
		if err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, layoutFile), version)
}

// backupBefore makes a backup of dir, which has an earlier layout, in dir itself. If there is one, it
// was made before the conversion began for the first time.
func backupBefore(dir, version string) (path string, err error) {
	path, records := filepath.Join(dir, "layout-"+version+".zip"), filepath.Join(dir, recordsFile)
	if exists(dir, filepath.Base(path)) || isEmpty(records) {
		return path, nil
	}
	_, err = WriteBackup(path, func(w io.Writer) error {
		db, err := openBolt(records, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
		if err != nil {
			return inUse(records, err)
		}
		return errors.Join(backup(dir, version, "", db, w), db.Close())
	})
	return path, err
}
