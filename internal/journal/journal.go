// Package journal keeps the files by which commands continue after they were
// stopped or killed.
//
// A journal has one JSON object a line, which is on the disk before the task goes
// on. The first line says what the task is. Each further line is a mark: how far
// the task is. Marks only save work, because a task that continues behind an
// earlier mark finds its later steps done; one that a kill cut off is ignored.
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

// Journal is the journal of one task, which no other process has open at the same
// time. It is not safe for concurrent use.
type Journal struct {
	ID         string     // of the task: a UUIDv7, the same until Begin; "" if the task was never begun
	FinishedAt *time.Time // when the task was finished; nil before that

	command string
	task    json.RawMessage
	lock    *flock.Flock
	file    *os.File
}

// line is a line of a journal. Lines are read one over the other: what a line
// lacks stays as it was.
type line struct {
	Version    int             `json:"sluice_journal,omitempty"` // this and the next three: only of the first line
	Command    string          `json:"command,omitempty"`
	ID         string          `json:"id,omitempty"`
	Task       json.RawMessage `json:"task,omitempty"`
	Mark       json.RawMessage `json:"mark,omitempty"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

// version is that of the format; magic is how every journal of it begins.
const (
	version = 1
	magic   = `{"sluice_journal":1,`
)

// Open opens the journal at path, which it creates if needed. command and the JSON
// of task say what the task is. If the journal is of the same task it has an ID,
// and the caller continues; otherwise the caller must call Begin. The latest mark
// is stored in the value that mark points to, also the one of another task.
//
// Open returns an error if another process has the journal open, if it is of
// another task that is not finished, or if the file is not a journal. The file is
// not changed then.
func Open(path, command string, task, mark any) (*Journal, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	j := &Journal{command: command, task: text, lock: flock.New(path)}
	if err := j.open(mark); err != nil {
		j.Close() //nolint:errcheck // it has failed already
		return nil, err
	}
	return j, nil
}

// open locks and reads the journal.
func (j *Journal) open(mark any) error {
	path := j.lock.Path()
	locked, err := j.lock.TryLock()
	if err == nil {
		j.file, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if !locked || !j.locksFile() {
		return fmt.Errorf("the journal %s is in use: another %s of this file is running", path, j.command)
	}
	last, size, err := read(j.file)
	switch {
	case err != nil:
		return fmt.Errorf("the file %s cannot be read as a journal: %w", path, err)
	case size > 0 && last.Command == j.command && bytes.Equal(last.Task, j.task):
		j.ID, j.FinishedAt = last.ID, last.FinishedAt
		err = j.file.Truncate(size)
	case size > 0 && last.FinishedAt == nil:
		return fmt.Errorf("the journal %s is of another %s, of other content or with another service, that is not finished: finish that first, or remove the journal to give it up", path, last.Command)
	}
	if err == nil && last.Mark != nil {
		err = json.Unmarshal(last.Mark, mark)
	}
	return err
}

// locksFile reports whether the locked file is the one that was opened. It is not
// if another process has removed the journal between the two.
func (j *Journal) locksFile() bool {
	locked, lockErr := j.lock.Stat()
	opened, fileErr := j.file.Stat()
	return lockErr == nil && fileErr == nil && os.SameFile(locked, opened)
}

// read returns the lines of a journal, one over the other, and how many bytes they
// are: 0 if not even the first one is whole.
func read(file io.Reader) (last line, size int64, err error) {
	in := bufio.NewReader(file)
	for {
		text, err := in.ReadBytes('\n')
		if size == 0 && !bytes.HasPrefix(text, []byte(magic[:min(len(text), len(magic))])) {
			return last, 0, errors.New("it is another file, or a journal of another version")
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

// Begin begins the task anew, with a new ID and no mark.
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

// Save adds a mark.
func (j *Journal) Save(mark any) error {
	text, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return j.append(line{Mark: text})
}

// Finish says that the task is finished.
func (j *Journal) Finish() error {
	now := time.Now().UTC().Truncate(time.Second)
	j.FinishedAt = &now
	return j.append(line{FinishedAt: &now})
}

// append writes a line. It is on the disk when append returns.
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

// Remove removes the file of the journal, which must still be closed.
func (j *Journal) Remove() error { return os.Remove(j.lock.Path()) }

// Close closes the journal. Another process can open it then, even while this one
// is starting a process, which shares its open files for a moment.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.lock.Close()) }
