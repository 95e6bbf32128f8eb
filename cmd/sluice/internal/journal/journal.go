// Package journal implements the files that let a stopped or killed command continue.
//
// A journal has one JSON object per line, and each line is synced to disk before the task goes
// on. The first line describes the task, Save adds checkpoints, and Finish adds a line with a
// timestamp. If a checkpoint is missing, the task repeats some steps, with the same result. An
// incomplete last line, which a killed process can leave, is ignored.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice/pkg/client"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
)

// Journal holds the checkpoints of one task. Only one process at a time can have it open. It is
// not safe for concurrent use.
type Journal struct {
	ID         string     // the task's UUIDv7, set by Begin; empty if the task was never begun
	FinishedAt *time.Time // nil if the task is unfinished
	Used       bool       // whether Open found a task in the file, this one or another

	task    Task
	work    json.RawMessage // JSON of task.Work
	lock    *flock.Flock
	file    *os.File
	size    int64  // bytes in the complete lines that Open found
	earlier []byte // content of the file before Begin
}

type Task struct {
	Command string // such as "import"
	Source  string // result of client.Client.Source: the service and the workspace
	Remedy  string // what the user can do if the journal has another source
	Work    any    // tells the command's tasks apart; encoded as JSON
	Abandon bool   // whether Begin may abandon another unfinished task

	// Same reports whether a journal belongs to this task, judging by the JSON of the journal's
	// Work. If Same is nil, that JSON must equal the JSON of this task's Work.
	Same func(work json.RawMessage) (bool, error)
}

// RefusedError says why a command refuses to go ahead and what to do instead.
type RefusedError struct{ reason string }

func (e *RefusedError) Error() string { return e.reason }

// Refuse is like fmt.Sprintf, but returns the text as a *RefusedError.
func Refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// line is one line of a journal. All lines are decoded into the same value, so each changes
// only the fields that it contains.
type line struct {
	Version    int             `json:"sluice_journal,omitempty"` // this and the next three fields are only in the first line
	Command    string          `json:"command,omitempty"`
	Source     string          `json:"source,omitempty"`
	ID         string          `json:"id,omitempty"`
	Task       json.RawMessage `json:"task,omitempty"` // in the first line, and in a line that Extend adds
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

const (
	version = 3                      // version of the file format
	magic   = `{"sluice_journal":3,` // beginning of every journal of this version
)

// Open opens the journal at path, and creates it if necessary. If the journal belongs to task,
// its ID is set, and the caller continues the task. Otherwise the caller must call Begin. Open
// decodes the latest checkpoint in the journal into checkpoint, even if it is another task's.
//
// Open fails without changing the file if another process has the journal open, or if the file
// is not a journal. Unless task.Abandon is set, it returns a *RefusedError if the journal
// belongs to another unfinished task, or to any task of the same command with another source.
func Open(path string, task Task, checkpoint any) (*Journal, error) {
	work, err := json.Marshal(task.Work)
	if err != nil {
		return nil, err
	}
	if task.Same == nil {
		task.Same = func(earlier json.RawMessage) (bool, error) { return bytes.Equal(earlier, work), nil }
	}
	j := &Journal{task: task, work: work, lock: flock.New(path)}
	if err := j.open(checkpoint); err != nil {
		j.Close() //nolint:errcheck // the earlier error is returned
		return nil, err
	}
	return j, nil
}

func (j *Journal) open(checkpoint any) error {
	path := j.lock.Path()
	locked, err := j.lock.TryLock()
	if err == nil {
		j.file, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if !locked || !j.locksFile() {
		return fmt.Errorf("another %s of this file is running: the journal %s is in use", j.task.Command, path)
	}
	last, size, err := read(j.file)
	if err != nil {
		return fmt.Errorf("the file %s cannot be read as a journal: %w", path, err)
	}
	j.Used, j.size = size > 0, size
	same := false
	if j.Used && last.Command == j.task.Command && last.Source != j.task.Source && !j.task.Abandon {
		return Refuse("%s belongs to the %s of %s, but this is %s: use the URL and API key of the former, or %s",
			path, last.Command, Describe(last.Source), Describe(j.task.Source), j.task.Remedy)
	}
	if j.Used && last.Source == j.task.Source && last.Command == j.task.Command {
		if same, err = j.task.Same(last.Task); err != nil {
			return err
		}
	}
	switch {
	case same:
		j.ID, j.FinishedAt = last.ID, last.FinishedAt
		err = j.file.Truncate(size)
	case j.Used && last.FinishedAt == nil && !j.task.Abandon:
		return j.refuse(last)
	}
	if err == nil && last.Checkpoint != nil {
		err = json.Unmarshal(last.Checkpoint, checkpoint)
	}
	return err
}

func (j *Journal) refuse(last line) error {
	loss := "what it has done so far is then lost"
	if last.Command == "import" {
		loss = "its records without an id then get new ids in the next import, which stores them twice"
	}
	return Refuse("the journal %s belongs to another %s that is not finished (its content or options differ); finish that %s first, or remove the journal to abandon it: %s",
		j.lock.Path(), last.Command, last.Command, loss)
}

// Describe returns a phrase that names a source's workspace and service.
func Describe(source string) string {
	i := strings.LastIndex(source, "/")
	return fmt.Sprintf("the workspace %s of the service %s", source[i+1:], source[:max(i, 0)])
}

// locksFile reports whether j.file is the locked file and not one that replaced it.
func (j *Journal) locksFile() bool {
	locked, lockErr := j.lock.Stat()
	opened, fileErr := j.file.Stat()
	return lockErr == nil && fileErr == nil && os.SameFile(locked, opened)
}

// read decodes all complete lines into one value. It also returns their total size in bytes.
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
			last.FinishedAt = nil // the task may have been extended after it was finished
			err = json.Unmarshal(text, &last)
		}
		if err != nil {
			return last, 0, err
		}
		size += int64(len(text))
	}
}

// Begin starts the task from scratch, with a new ID and no checkpoints. If it fails, it leaves the
// file as it was.
func (j *Journal) Begin() error {
	id, err := uuid.NewV7()
	if err == nil {
		j.earlier, err = io.ReadAll(io.NewSectionReader(j.file, 0, j.size))
	}
	if err == nil {
		err = j.file.Truncate(0)
	}
	if err != nil {
		return fmt.Errorf("begin the journal: %w", err)
	}
	j.ID, j.FinishedAt = id.String(), nil
	err = j.append(line{Version: version, Command: j.task.Command, Source: j.task.Source, ID: j.ID, Task: j.work})
	if err != nil {
		return errors.Join(err, j.Undo())
	}
	return nil
}

// Extend replaces the Work in the journal with that of this task. A finished task becomes
// unfinished again.
func (j *Journal) Extend() error {
	j.FinishedAt = nil
	return j.append(line{Task: j.work})
}

// Save appends a checkpoint, encoded as JSON.
func (j *Journal) Save(checkpoint any) error {
	text, err := json.Marshal(checkpoint)
	if err != nil {
		return err
	}
	return j.append(line{Checkpoint: text})
}

// Finish records that the task is finished, and sets FinishedAt.
func (j *Journal) Finish() error {
	now := time.Now().UTC().Truncate(time.Second)
	j.FinishedAt = &now
	return j.append(line{FinishedAt: &now})
}

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

// Undo restores the content that Begin replaced, or removes the file if there was none. The
// caller must call Close afterwards.
func (j *Journal) Undo() error {
	if len(j.earlier) == 0 {
		return j.Remove()
	}
	err := j.file.Truncate(0)
	if err == nil {
		_, err = j.file.Write(j.earlier)
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("restore the journal: %w", err)
	}
	return nil
}

// Remove removes the journal's file. The caller must call Close afterwards.
func (j *Journal) Remove() error { return os.Remove(j.lock.Path()) }

// Close closes the journal. Other processes can then open it, even if a child process that is
// just starting has inherited the open files.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// Continues adds a hint to err, such as "The same command continues after 3 changes".
func Continues(err error, where string) error {
	when := "The"
	if e, ok := errors.AsType[*client.Error](err); ok && e.Rejected() {
		when = "Once the service accepts the request, the"
	}
	return fmt.Errorf("%w\n%s same command continues %s", err, when, where)
}
