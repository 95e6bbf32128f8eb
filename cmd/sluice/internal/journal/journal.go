// Package journal reads and writes journal files. A command that was stopped or killed
// continues from its journal.
//
// A journal has one JSON object per line. Each line is synced to disk before the task
// continues. The first line describes the task. Each further line is a mark, which is the
// progress of the task. Finish adds a last line with the time. If a mark is missing, the task
// repeats some steps. The repetition does not change the result of the task. A killed process
// can leave an incomplete last line. The next process ignores that line.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
)

// Journal is the journal of one task. Only one process at a time can have it open. It is not
// safe for concurrent use.
type Journal struct {
	ID         string     // id of the task, a UUIDv7 that Begin sets; empty if the task was never begun
	FinishedAt *time.Time // when the task was finished; nil if it is not finished
	Used       bool       // whether Open found a task in the file: this task or another one

	command string
	task    json.RawMessage
	lock    *flock.Flock
	file    *os.File
}

// line is a line of a journal. All lines are decoded into the same value, so a line
// changes only the fields that it has.
type line struct {
	Version    int             `json:"sluice_journal,omitempty"` // only the first line has this and the next three fields
	Command    string          `json:"command,omitempty"`
	ID         string          `json:"id,omitempty"`
	Task       json.RawMessage `json:"task,omitempty"`
	Mark       json.RawMessage `json:"mark,omitempty"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

const (
	version = 1                      // version of the file format
	magic   = `{"sluice_journal":1,` // beginning of every journal of this version
)

// Open opens the journal at path, and creates it if necessary. The parameter command and the
// JSON of the parameter task identify the task. If the journal belongs to this task,
// Journal.ID is set, and the caller continues the task. Otherwise Journal.ID is empty, and the
// caller must call Begin. Open decodes the latest mark of the journal into the value to which
// the parameter mark points. If the journal belongs to another task that is finished, Open
// decodes the latest mark of that other task.
//
// Open returns an error and does not change the file in three cases: another process has the
// journal open, the journal belongs to another task that is not finished, or the file is not a
// journal.
func Open(path, command string, task, mark any) (*Journal, error) {
	return open(path, command, task, mark, false)
}

// OpenAny is like Open, but it also opens the journal of another task that is not finished.
// Begin then abandons that task.
func OpenAny(path, command string, task, mark any) (*Journal, error) {
	return open(path, command, task, mark, true)
}

func open(path, command string, task, mark any, abandon bool) (*Journal, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	j := &Journal{command: command, task: text, lock: flock.New(path)}
	if err := j.open(mark, abandon); err != nil {
		j.Close() //nolint:errcheck // the earlier error is returned
		return nil, err
	}
	return j, nil
}

// open locks and reads the journal.
func (j *Journal) open(mark any, abandon bool) error {
	path := j.lock.Path()
	locked, err := j.lock.TryLock()
	if err == nil {
		j.file, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if !locked || !j.locksFile() {
		return fmt.Errorf("another %s of this file is running: the journal %s is in use", j.command, path)
	}
	last, size, err := read(j.file)
	j.Used = size > 0
	switch {
	case err != nil:
		return fmt.Errorf("the file %s cannot be read as a journal: %w", path, err)
	case size > 0 && last.Command == j.command && bytes.Equal(last.Task, j.task):
		j.ID, j.FinishedAt = last.ID, last.FinishedAt
		err = j.file.Truncate(size)
	case size > 0 && last.FinishedAt == nil && !abandon:
		return fmt.Errorf("the journal %s belongs to another %s that is not finished (its content, options or service differ); finish that %s first, or remove the journal to abandon it", path, last.Command, last.Command)
	}
	if err == nil && last.Mark != nil {
		err = json.Unmarshal(last.Mark, mark)
	}
	return err
}

// locksFile reports whether the locked file and the open file are the same. They differ if
// another process replaced the journal before j.file was opened.
func (j *Journal) locksFile() bool {
	locked, lockErr := j.lock.Stat()
	opened, fileErr := j.file.Stat()
	return lockErr == nil && fileErr == nil && os.SameFile(locked, opened)
}

// read decodes all lines of a journal into the same value, and returns the number of bytes of
// the complete lines. This number is 0 if the first line is incomplete.
func read(file io.Reader) (last line, size int64, err error) {
	in := bufio.NewReader(file)
	for {
		text, err := in.ReadBytes('\n')
		if size == 0 && !bytes.HasPrefix(text, []byte(magic[:min(len(text), len(magic))])) {
			return last, 0, errors.New("it is not a journal, or it is a journal of another version")
		}
		if err == io.EOF {
			return last, size, nil
		}
		if err == nil {
			err = json.Unmarshal(text, &last)
		}
		if err != nil {
			return last, 0, err
		}
		size += int64(len(text))
	}
}

// Begin begins the task from the start. It sets a new ID and removes all marks.
func (j *Journal) Begin() error {
	id, err := uuid.NewV7()
	if err == nil {
		err = j.file.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	j.ID, j.FinishedAt = id.String(), nil
	return j.append(line{Version: version, Command: j.command, ID: j.ID, Task: j.task})
}

// Save appends a mark to the journal. The mark must be encodable as JSON.
func (j *Journal) Save(mark any) error {
	text, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return j.append(line{Mark: text})
}

// Finish records that the task is finished, and sets FinishedAt.
func (j *Journal) Finish() error {
	now := time.Now().UTC().Truncate(time.Second)
	j.FinishedAt = &now
	return j.append(line{FinishedAt: &now})
}

// append writes a line and syncs it to disk.
func (j *Journal) append(l line) error {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(text, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// Remove removes the file of the journal. The caller must call Close afterwards.
func (j *Journal) Remove() error { return os.Remove(j.lock.Path()) }

// Close closes the journal. Other processes can then open it at once. This also holds while
// this process starts a child process, which briefly inherits the open files.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.lock.Close()) }
