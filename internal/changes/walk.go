// Package changes reads what has changed in a service since a time into a file. A
// walk that was stopped or killed continues where it stopped.
package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"sluice/internal/journal"
	"sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

// PageSize is the most changes of a page.
const PageSize = 200

var noun = progress.Noun{One: "change", Many: "changes"}

// Mark is how far a walk is, as its journal saves it.
type Mark struct {
	Since       record.Time  `json:"since"`        // where the walk begins
	SyncedUntil *record.Time `json:"synced_until"` // where it ends: before this time; nil before the first page
	List        int          `json:"list"`         // index of the list that is being read; their number at the end
	Cursor      string       `json:"cursor"`       // of the next page of that list; "" for the first
	Changes     int64        `json:"changes"`      // in the file
	Bytes       int64        `json:"bytes"`        // of the file
}

// Walk reads lists of changes into an NDJSON file, one after the other, in the order
// of the lists. Its journal, which also keeps other processes out, saves after each
// page how far it is. A Walk is not safe for concurrent use.
type Walk struct {
	journal *journal.Journal
	path    string // of the file
	mark    Mark
}

// Open opens the journal of a walk at path, which it creates if needed. command and
// task say what the walk is of, as in journal.Open, which describes the errors. The
// file is at path with ".part" behind it.
func Open(path, command string, task any) (*Walk, error) {
	w := &Walk{path: path + ".part"}
	var err error
	w.journal, err = journal.Open(path, command, task, &w.mark)
	return w, err
}

// Begun reports whether an earlier run, or this one, began the walk.
func (w *Walk) Begun() bool { return w.journal.ID != "" }

// Mark returns how far the walk is.
func (w *Walk) Mark() Mark { return w.mark }

// Path returns the path of the file.
func (w *Walk) Path() string { return w.path }

// Begin begins a walk at a time, and drops what an earlier one has read.
func (w *Walk) Begin(since record.Time) error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.journal.Begin(); err != nil {
		return err
	}
	w.mark = Mark{Since: since}
	return w.journal.Save(w.mark)
}

// Continue continues the walk of an earlier run that began at since and read
// something, if the file still has that; otherwise it begins a walk. It reports whether
// it continues.
func (w *Walk) Continue(since record.Time) (continues bool, err error) {
	if w.mark.SyncedUntil != nil && w.mark.Since == since {
		switch info, err := os.Stat(w.path); {
		case err == nil && info.Size() >= w.mark.Bytes:
			return true, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, w.Begin(since)
}

// Read reads what is left of the lists. After it has returned nil, Mark().SyncedUntil
// is where the next walk begins. It shows its progress on stderr; waiting says what
// the client waits for, as in progress.State.
func (w *Walk) Read(ctx context.Context, lists []List, waiting func() string, stderr io.Writer) (err error) {
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(w.mark.Bytes); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	var read atomic.Int64
	defer progress.Start(stderr, noun, func() progress.State {
		return progress.State{Done: read.Load(), Part: -1, Details: "read", Waiting: waiting()}
	})()
	for w.mark.List < len(lists) {
		page, err := lists[w.mark.List](ctx, w.mark)
		if err != nil {
			return err
		}
		if err := w.add(file, page); err != nil {
			return err
		}
		read.Add(page.Read)
	}
	return nil
}

// add appends a page to the file and saves that.
func (w *Walk) add(file *os.File, page Page) error {
	if _, err := file.Write(page.Lines); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	w.mark.Changes += page.Count
	w.mark.Bytes += int64(len(page.Lines))
	if w.mark.SyncedUntil == nil {
		w.mark.SyncedUntil = &page.SyncedUntil
	}
	if page.Next != nil {
		w.mark.Cursor = *page.Next
	} else {
		w.mark.List, w.mark.Cursor = w.mark.List+1, ""
	}
	return w.journal.Save(w.mark)
}

// Stop returns err, or the cause of the cancellation of ctx, and says how the walk
// continues. It removes a walk that has read nothing.
func (w *Walk) Stop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if w.mark.SyncedUntil == nil {
		return errors.Join(err, w.Remove())
	}
	when := "The"
	var e *client.Error
	if errors.As(err, &e) && 400 <= e.Status && e.Status < 500 && !e.Retryable() {
		when = "Once the service accepts it, the"
	}
	return fmt.Errorf("%w\n%s same command continues after %s", err, when, w.Done())
}

// Done returns how many changes the file has, in words.
func (w *Walk) Done() string { return noun.Count(w.mark.Changes) }

// Remove removes the file and the journal, which must still be closed.
func (w *Walk) Remove() error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.journal.Remove()
}

// Close closes the journal.
func (w *Walk) Close() error { return w.journal.Close() }
