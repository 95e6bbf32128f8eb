package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// openLocked opens the journal of a command, which it creates if need be, for
// this process alone, until closeLocked.
func openLocked(path, command string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	if err := lock(file); err != nil {
		file.Close() //nolint:errcheck // it has failed already
		return nil, fmt.Errorf("the journal %s is in use: another %s of this file is running (%w)", path, command, err)
	}
	return file, nil
}

// closeLocked ends the use of a journal.
func closeLocked(file *os.File) error { return errors.Join(unlock(file), file.Close()) }

// beginJournal makes head all that a journal has. It is on the disk then.
func beginJournal(file *os.File, head any) error {
	line, err := json.Marshal(head)
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(append(line, '\n'), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}
