// Package changes implements walks. A walk reads all changes in a service since some time and
// writes them to a file. If it is stopped or killed, the next run continues it.
package changes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// MaxAge is the age at which a walk that needs tombstones must start over. The service keeps
// them a day longer, which leaves time to read them.
const MaxAge = entity.TombstoneAge - 24*time.Hour

var noun = progress.Noun{One: "change", Many: "changes"}

// Mark is a walk's progress, saved in its journal.
type Mark struct {
	Since       record.Time  `json:"since"`        // the walk reads changes at or after this time
	SyncedUntil *record.Time `json:"synced_until"` // and before this one; nil until the first page is read
	List        int          `json:"list"`         // index of the current list; the number of lists if all are read
	Cursor      string       `json:"cursor"`       // cursor of the list's next page; "" for the first
	Changes     int64        `json:"changes"`      // number of changes in the file
	Bytes       int64        `json:"bytes"`        // size of the file

	Force bool `json:"force,omitempty"` // whether task.Abandon was set when the walk began
}

// Walk reads one list of changes after the other into an NDJSON file, and saves its progress
// in a journal after each page. The journal also keeps other processes from writing to the
// file. A Walk is not safe for concurrent use.
type Walk struct {
	journal *journal.Journal
	path    string // path of the file
	force   bool   // task.Abandon, from Open
	mark    Mark
	now     func() time.Time
}

// Open opens or creates the journal of a walk at path. The walk's file is path + ".part". With
// task.Abandon, Open also opens the journal of another unfinished walk, which Begin then
// abandons. The errors are those of journal.Open.
func Open(path string, task journal.Task, now func() time.Time) (w *Walk, err error) {
	w = &Walk{path: path + ".part", force: task.Abandon, now: now}
	w.journal, err = journal.Open(path, task, &w.mark)
	return w, err
}

// Begun reports whether this run or an earlier one began the walk.
func (w *Walk) Begun() bool { return w.journal.ID != "" }

// Used reports whether an earlier run began this walk or another one at the same path.
func (w *Walk) Used() bool { return w.journal.Used }

func (w *Walk) Mark() Mark { return w.mark }

// Path returns the path of the file.
func (w *Walk) Path() string { return w.path }

// Begin begins a walk over the changes since a time, and discards what an earlier walk read.
func (w *Walk) Begin(since record.Time) error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.journal.Begin(); err != nil {
		return err
	}
	w.mark = Mark{Since: since, Force: w.force}
	return w.journal.Save(w.mark)
}

// Continue continues the walk of an earlier run if that began at since and read at least one
// page, and the file has at least Mark.Bytes bytes. Otherwise it begins a new walk and returns
// false. It does not notice if the file's content was changed.
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

// Read reads the remaining pages and shows its progress on stderr. waiting returns the
// progress.State.Waiting. If Read succeeds, the next walk begins at Mark().SyncedUntil.
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

// add appends a page to the file and saves the progress.
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
		until := page.SyncedUntil
		if now := w.now(); until.Time().After(now) {
			// The service's clock is ahead. Once it is set right, changes get times before until, and a
			// walk since then would miss them.
			until = record.TimeOf(now.Add(-record.SyncLag))
		}
		w.mark.SyncedUntil = &until
	}
	if page.Next != nil {
		w.mark.Cursor = *page.Next
	} else {
		w.mark.List, w.mark.Cursor = w.mark.List+1, ""
	}
	return w.journal.Save(w.mark)
}

// Stop returns err, or ctx's cause if ctx is done, with a hint about how to continue the walk.
// If the walk has read no page, Stop removes its files and gives no hint.
func (w *Walk) Stop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if w.mark.SyncedUntil == nil {
		return errors.Join(err, w.Remove())
	}
	return journal.Continues(err, "after "+w.Done())
}

// Done returns the number of changes in the file, such as "1 change".
func (w *Walk) Done() string { return noun.Count(w.mark.Changes) }

// Remove removes the file and the journal. The caller must still close the journal.
func (w *Walk) Remove() error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.journal.Remove()
}

func (w *Walk) Close() error { return w.journal.Close() }
