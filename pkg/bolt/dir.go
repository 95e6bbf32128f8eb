package bolt

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layout is the version of a data directory's format: the names of its files and their
// buckets, keys and values. It must change whenever this build and earlier builds would
// otherwise misread each other's files.
const layout = "7"

// layoutFile contains the layout version and is created first. serviceFile contains the id of
// the service; a server creates the file if it is missing.
const (
	layoutFile  = "layout"
	serviceFile = "service"
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

// serviceID returns the id of the service whose data is in dir, and creates it if necessary.
func serviceID(dir string) (string, error) {
	path := filepath.Join(dir, serviceFile)
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the id of the service: %w", err)
	}
	id := rand.Text()
	return id, os.WriteFile(path, []byte(id+"\n"), 0o600)
}

// HasData reports whether a server has used the data directory dir.
func HasData(dir string) bool { return exists(dir, recordsFile) }
