package journal

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace gives the file at path a new content, atomically: after a crash, it has either content.
func Replace(path string, content []byte) error {
	file, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return Rename(file.Name(), path)
}

// Rename renames a file, and syncs the directory so that the rename survives a crash.
func Rename(temp, path string) error {
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
