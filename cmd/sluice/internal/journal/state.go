package journal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// LoadState decodes the JSON file at path, which says what a copy has; nil if there is no such file.
// If it is not JSON, or valid does not accept it, the error is a *RefusedError that ends with advice.
func LoadState[S any](path string, valid func(*S) bool, advice string) (*S, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(S)
	if err := json.Unmarshal(text, s); err != nil || !valid(s) {
		return nil, Refuse("%s is not the state file of a copy, or another version of sluice wrote it; %s", path, advice)
	}
	return s, nil
}

// SaveState replaces the file at path with the JSON of state, atomically: after a crash, it has
// either content.
func SaveState(path string, state any) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
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
