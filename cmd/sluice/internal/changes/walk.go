// Package changes implements walks. A walk reads all changes to a service's records since a start
// time and writes them to a file. If it is stopped or killed, the next run continues it.
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
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// MaxAge is the age after which a walk that needs tombstones must start over. The service
// keeps tombstones a day longer, which leaves time to read them.
const MaxAge = entity.TombstoneAge - 24*time.Hour

var noun = progress.Noun{One: "change", Many: "changes"}

// Checkpoint says where a walk continues. It is saved in the walk's journal.
type Checkpoint struct {
	Since   record.Time `json:"since"`   // start time of the walk, inclusive
	Began   *Clocks     `json:"began"`   // when the first page was received; nil until then
	List    int         `json:"list"`    // index of the list being read; after the last list, the number of lists
	Cursor  string      `json:"cursor"`  // cursor of the list's next page; "" for the first page
	Changes int64       `json:"changes"` // number of changes in the file
	Bytes   int64       `json:"bytes"`   // size of the file

	// SyncedUntil is where the next walk starts, once all lists have been read: the earliest
	// synced_until with which one ended.
	SyncedUntil *record.Time `json:"synced_until"`

	Force bool `json:"force,omitempty"` // whether Task.Abandon was set when the walk began
}

// Clocks is what two clocks showed at one time.
type Clocks struct {
	Own     record.Time  `json:"own"`     // of this computer
	Service *record.Time `json:"service"` // the Date of a response, in whole seconds; nil if it had none
}

// ClocksAt returns the Clocks of a response that has just been received. date is its Date, or zero.
func ClocksAt(own, date time.Time) Clocks {
	c := Clocks{Own: record.TimeOf(own)}
	if !date.IsZero() {
		c.Service = new(record.TimeOf(date))
	}
	return c
}

// maxSetBack is how much less than the own clock a service's may have advanced. The clocks of its
// instances differ by as much.
const maxSetBack = 2 * record.MaxClockSkew

// SetBack reports whether the service's clock was set back between then and c, or the own one
// forward. Changes may then have got times that a walk had already passed.
func (c Clocks) SetBack(then Clocks) bool {
	own, service := c.since(then)
	return c.Service != nil && then.Service != nil && service < own-maxSetBack
}

// Age returns how long ago then was by whichever clock says more.
func (c Clocks) Age(then Clocks) time.Duration {
	own, service := c.since(then)
	return max(own, service)
}

// since returns by how much each clock has advanced; service is 0 if that is not known.
func (c Clocks) since(then Clocks) (own, service time.Duration) {
	if c.Service != nil && then.Service != nil {
		service = c.Service.Time().Sub(then.Service.Time())
	}
	return c.Own.Time().Sub(then.Own.Time()), service
}

// Walk reads one list of changes after another into an NDJSON file, and saves a Checkpoint in
// a journal after each page. The journal also keeps other processes from writing to the file.
// A Walk is not safe for concurrent use.
type Walk struct {
	journal    *journal.Journal
	path       string // path of the NDJSON file
	force      bool   // Task.Abandon, as passed to Open
	checkpoint Checkpoint
	now        func() time.Time
	left       bool // whether a list was left before its end
}

// Open opens the journal at path, or creates it. The walk writes changes to path + ".part".
// With task.Abandon, Open also opens the journal of another unfinished walk, which Begin then
// abandons. The errors are those of journal.Open.
func Open(path string, task journal.Task, now func() time.Time) (w *Walk, err error) {
	w = &Walk{path: path + ".part", force: task.Abandon, now: now}
	w.journal, err = journal.Open(path, task, &w.checkpoint)
	return w, err
}

// Begun reports whether this run or an earlier one began the walk.
func (w *Walk) Begun() bool { return w.journal.ID != "" }

// Used reports whether an earlier run began this walk or another one at the same path.
func (w *Walk) Used() bool { return w.journal.Used }

func (w *Walk) Checkpoint() Checkpoint { return w.checkpoint }

// Path returns the path of the NDJSON file.
func (w *Walk) Path() string { return w.path }

// Begin starts a new walk and discards what an earlier walk read.
func (w *Walk) Begin(since record.Time) error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.journal.Begin(); err != nil {
		return err
	}
	w.checkpoint = Checkpoint{Since: since, Force: w.force}
	return w.journal.Save(w.checkpoint)
}

// Continue resumes an earlier run's walk if that walk has the same start time, has read a page,
// and still has at least Checkpoint.Bytes bytes in its file. Otherwise Continue begins a new
// walk and returns false. It does not detect changes to the file's content.
func (w *Walk) Continue(since record.Time) (continues bool, err error) {
	if w.checkpoint.Began != nil && w.checkpoint.Since == since {
		switch info, err := os.Stat(w.path); {
		case err == nil && info.Size() >= w.checkpoint.Bytes:
			return true, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, w.Begin(since)
}

// Read reads the remaining pages and shows its progress on stderr; waiting supplies
// progress.State.Waiting. It leaves a list whose changes come faster than it reads (client.Chase). If
// Read succeeds, the next walk begins at Checkpoint().SyncedUntil.
func (w *Walk) Read(ctx context.Context, lists []List, waiting func() string, stderr io.Writer) (err error) {
	file, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(w.checkpoint.Bytes); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	var read atomic.Int64
	defer progress.Start(stderr, noun, func() progress.State {
		return progress.State{Done: read.Load(), Part: -1, Details: "read", Waiting: waiting()}
	})()
	chase := client.Chase{Now: w.now}
	for w.checkpoint.List < len(lists) {
		page, err := lists[w.checkpoint.List](ctx, w.checkpoint)
		if err != nil {
			return err
		}
		if page.Next != nil && chase.Over(page.SyncedUntil, page.Last, page.Sent) {
			page.Next, w.left = nil, true
		}
		if page.Next == nil {
			chase = client.Chase{Now: w.now}
		}
		if err := w.add(file, page); err != nil {
			return err
		}
		read.Add(page.Read)
	}
	return nil
}

// add appends a page to the file, syncs it to disk, and saves the checkpoint.
func (w *Walk) add(file *os.File, page Page) error {
	if _, err := file.Write(page.Lines); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	w.checkpoint.Changes += page.Count
	w.checkpoint.Bytes += int64(len(page.Lines))
	if w.checkpoint.Began == nil {
		w.checkpoint.Began = new(ClocksAt(w.now(), page.Sent))
	}
	if page.Next != nil {
		w.checkpoint.Cursor = *page.Next
	} else {
		w.checkpoint.List, w.checkpoint.Cursor = w.checkpoint.List+1, ""
		if earlier := w.checkpoint.SyncedUntil; earlier == nil || page.SyncedUntil.Compare(*earlier) < 0 {
			w.checkpoint.SyncedUntil = &page.SyncedUntil
		}
	}
	return w.journal.Save(w.checkpoint)
}

// Stop returns err, or ctx's cause if ctx is done, with a hint about how to continue the walk.
// If the walk has read no page, Stop removes the walk's files and gives no hint.
func (w *Walk) Stop(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if w.checkpoint.Began == nil {
		return errors.Join(err, w.Remove())
	}
	return journal.Continues(err, "after "+w.Done())
}

// Left reports whether Read left a list before its end, because changes came faster than it read.
func (w *Walk) Left() bool { return w.left }

// Done returns the number of changes in the file as text, such as "1 change".
func (w *Walk) Done() string { return noun.Count(w.checkpoint.Changes) }

// Remove removes the file and the journal. The caller must still call Close.
func (w *Walk) Remove() error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.journal.Remove()
}

func (w *Walk) Close() error { return w.journal.Close() }
