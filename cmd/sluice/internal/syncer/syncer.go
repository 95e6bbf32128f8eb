// Package syncer keeps a local copy of a service's entities or events up to date: an NDJSON
// file that contains each record once, sorted by id.
//
// A run reads the changes since the last run, merges them with the copy into a new file, and
// renames that file to the copy's path. A state file next to the copy has the time up to which
// the copy is complete, and the digests of the files that a run may replace. If a run fails or
// is killed, either the old or the new copy is intact, and the next run reads the remaining
// changes or repeats the merge, with the same result.
package syncer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/cmd/sluice/internal/changes"
	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

type Options struct {
	Resource record.Resource // Entity or Event
	Path     string          // path of the copy
	Force    bool            // replace any file at Path with a new copy, or continue an interrupted run that also had Force
	PageSize int             // changes per page; if 0, the client chooses

	Now     func() time.Time // time.Now by default
	Waiting func() string    // what the client is waiting for; "" while the service is responding
}

type Result struct {
	Resource    record.Resource `json:"resource"`
	File        string          `json:"file"`
	Records     int64           `json:"records"` // records in the copy
	Changes     int64           `json:"changes"` // changes since the last run
	SyncedUntil record.Time     `json:"synced_until"`
}

type syncer struct {
	Options
	client     *client.Client
	source     string // the service and the workspace
	clocks     changes.Clocks
	stderr     io.Writer
	statePath  string
	state      *state
	walk       *changes.Walk
	mode       fs.FileMode // permissions of the copy
	batchBytes int
}

// Run updates the copy at o.Path and shows its progress on stderr. It starts a new copy if there
// is none, if o.Force calls for one, or if the old copy cannot be updated: tombstones may expire
// before this run has read them, or the service's clock was set back.
//
// The error is a *journal.RefusedError if Run must not replace the file at o.Path: another
// program wrote or changed it, or it is a copy of another service, workspace or resource.
// After any other error, a call with the same options continues the update.
func Run(ctx context.Context, o Options, c *client.Client, stderr io.Writer) (Result, error) {
	s, err := open(ctx, o, c, stderr)
	if err != nil {
		return Result{}, err
	}
	r, err := s.run(ctx)
	return r, errors.Join(err, s.walk.Close())
}

// open fails if another run for the same copy is in progress.
func open(ctx context.Context, o Options, c *client.Client, stderr io.Writer) (*syncer, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	// Follow a symbolic link: a rename would replace the link instead of its target.
	if path, err := filepath.EvalSymlinks(o.Path); err == nil {
		o.Path = path
	}
	source, err := c.Source(ctx)
	if err != nil {
		return nil, err
	}
	s := &syncer{Options: o, client: c, source: source, clocks: changes.ClocksAt(o.Now(), c.Date()), stderr: stderr, statePath: o.Path + ".sluice-sync", mode: 0o600, batchBytes: defaultBatchBytes}
	s.walk, err = changes.Open(s.statePath+".walk", journal.Task{
		Command: "sync", Source: source, Work: o.Resource, Abandon: o.Force, Remedy: "name another file, or replace the copy with --force",
	}, o.Now)
	return s, err
}

// run updates the copy. If it continues an earlier run's walk, it then makes a second walk,
// over the changes made since the first walk began.
func (s *syncer) run(ctx context.Context) (Result, error) {
	continues, err := s.prepare()
	if err != nil && !s.walk.Used() {
		err = errors.Join(err, s.walk.Remove())
	}
	if err != nil {
		return Result{}, err
	}
	err = s.update(ctx)
	read := s.walk.Checkpoint().Changes
	if continues && err == nil && !s.walk.Left() {
		if err = s.walk.Begin(s.since()); err == nil {
			err = s.update(ctx)
		}
		read += s.walk.Checkpoint().Changes
	}
	if refused := new(journal.RefusedError); errors.As(err, &refused) {
		return Result{}, err
	}
	if err != nil {
		return Result{}, s.walk.Stop(ctx, err)
	}
	if s.walk.Left() {
		fmt.Fprintln(s.stderr, "Changes come faster than this run reads them. The next run continues.")
	}
	return Result{s.Resource, s.Path, s.state.Records, read, s.since()}, s.walk.Remove()
}

// update reads the remaining changes and replaces the copy.
func (s *syncer) update(ctx context.Context) error {
	if err := s.walk.Read(ctx, s.lists(), s.Waiting, s.stderr); err != nil {
		return err
	}
	merged, err := s.mergeChanges(ctx)
	if err != nil {
		return err
	}
	if merged.path != "" {
		if err := s.replaceCopy(merged); err != nil {
			return err
		}
	}
	return s.finish(merged)
}

// replaceCopy moves the new copy to s.Path. It returns a *journal.RefusedError if the file
// there has changed since mergeChanges checked it.
func (s *syncer) replaceCopy(merged copyFile) error {
	now, err := fileAt(s.Path)
	if err != nil {
		return err
	}
	if !sameFile(merged.old, now) {
		return errors.Join(journal.Refuse("%s has changed during this run; name another file, or replace it with --force", s.Path), os.Remove(merged.path))
	}
	return journal.Rename(merged.path, s.Path)
}

// prepare loads the state, checks the file at s.Path, and begins a new walk or continues an
// earlier run's walk.
func (s *syncer) prepare() (continues bool, err error) {
	info, err := os.Stat(s.Path)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	case !exists && isLink(s.Path):
		return false, journal.Refuse("%s is a symbolic link to a file that does not exist", s.Path)
	case exists && !info.Mode().IsRegular():
		return false, journal.Refuse("%s is not a regular file", s.Path)
	case exists:
		s.mode = info.Mode().Perm()
	}
	if s.Force {
		files, err := s.existing(exists)
		if err != nil {
			return false, err
		}
		if !s.continuesForce(files) {
			return false, s.startOver(files)
		}
	}
	if s.state, err = loadState(s.statePath); err != nil {
		return false, err
	}
	if s.state == nil {
		if exists {
			return false, journal.Refuse("%s exists, and no sync has written it; name another file, or replace it with --force", s.Path)
		}
		s.state = s.newState()
	}
	switch {
	case s.state.Source != s.source || s.state.Resource != s.Resource:
		return false, journal.Refuse("%s is a copy of the resource %s in %s, but this is %s in %s: use the URL and API key of the former, name another file, or replace the copy with --force",
			s.Path, s.state.Resource, journal.Describe(s.state.Source), s.Resource, journal.Describe(s.source))
	case exists && !s.state.knowsSize(info.Size()):
		return false, s.refuseChanged()
	case !exists && s.state.SyncedUntil != nil:
		fmt.Fprintf(s.stderr, "%s no longer exists. Starting a new copy.\n", s.Path)
		return false, s.startOver(nil)
	case s.began() == nil:
	case s.clocks.SetBack(*s.began()):
		fmt.Fprintln(s.stderr, "Since the last sync, the service's clock has advanced less than this computer's: one of them was set. Starting a new copy.")
		return false, s.startOver(s.state.Files)
	case s.clocks.Age(*s.began()) > changes.MaxAge:
		fmt.Fprintf(s.stderr, "The last sync was more than %d days ago, so the service may no longer report all deletions since then. Starting a new copy.\n", changes.MaxAge/(24*time.Hour))
		return false, s.startOver(s.state.Files)
	}
	continues, err = s.walk.Continue(s.since())
	if continues {
		fmt.Fprintf(s.stderr, "Continuing after %s.\n", s.walk.Done())
	}
	return continues, err
}

func (s *syncer) newState() *state {
	return &state{Version: stateVersion, Source: s.source, Resource: s.Resource}
}

func (s *syncer) refuseChanged() error {
	return journal.Refuse("%s has changed since a sync wrote it; name another file, or replace it with --force", s.Path)
}

// existing returns the digest of the file at s.Path, or nil if there is no file.
func (s *syncer) existing(exists bool) ([]digest, error) {
	if !exists {
		return nil, nil
	}
	d, err := digestOf(s.Path)
	return []digest{d}, err
}

// continuesForce reports whether an earlier run with Force began this copy and was
// interrupted. If there is a file at s.Path, that run must also have been allowed to replace
// it. files is the result of s.existing.
func (s *syncer) continuesForce(files []digest) bool {
	if !s.walk.Begun() || !s.walk.Checkpoint().Force {
		return false
	}
	earlier, err := loadState(s.statePath)
	if err != nil || earlier == nil || earlier.Source != s.source || earlier.Resource != s.Resource {
		return false
	}
	return len(files) == 0 || slices.Contains(earlier.Files, files[0])
}

// startOver starts a new copy, which may replace only a file with one of these digests.
func (s *syncer) startOver(files []digest) error {
	s.state = s.newState()
	s.state.Files = files
	if err := journal.SaveState(s.statePath, s.state); err != nil {
		return err
	}
	return s.walk.Begin(s.since())
}

// since returns the start of the walk's time range. For a new copy, that is the Unix epoch, so
// the walk reads all records.
func (s *syncer) since() record.Time {
	if s.state.SyncedUntil == nil {
		return record.Time{}
	}
	return *s.state.SyncedUntil
}

// began returns when the last complete walk began or, if there was none, the unfinished one. All
// changes and tombstones since then are still to be read. It is nil if no page has been read.
func (s *syncer) began() *changes.Clocks {
	if s.state.SyncedUntil != nil {
		return s.state.Began
	}
	return s.walk.Checkpoint().Began
}

func (s *syncer) lists() []changes.List {
	if s.Resource == record.Entity {
		return []changes.List{changes.Entities(s.client, client.EntityChangeQuery{IncludeDeleted: true, Limit: s.PageSize})}
	}
	return []changes.List{
		changes.Events(s.client, client.EventChangeQuery{Limit: s.PageSize}),
		changes.Erasures(s.client, s.PageSize),
	}
}

// mergeChanges writes the new copy to a file next to s.Path. If there is a file at s.Path, the
// state file must contain its digest. After the merge, mergeChanges saves the digests of both
// files: if the process is killed, either can be at s.Path, and the next run may replace it.
func (s *syncer) mergeChanges(ctx context.Context) (copyFile, error) {
	applied, err := digestOf(s.walk.Path())
	if err != nil {
		return copyFile{}, err
	}
	base := s.Path
	if s.state.SyncedUntil == nil {
		base = ""
	} else if applied.Bytes == 0 || s.state.Applied != nil && applied == *s.state.Applied {
		return copyFile{records: s.state.Records, applied: applied}, nil
	}
	old, err := fileAt(s.Path)
	if err != nil {
		return copyFile{}, err
	}
	files, err := s.existing(old != nil)
	if err != nil {
		return copyFile{}, err
	}
	if old != nil && !slices.Contains(s.state.Files, files[0]) {
		return copyFile{}, s.refuseChanged()
	}
	merged, err := s.merge(ctx, base)
	if err != nil {
		return copyFile{}, err
	}
	merged.old, merged.applied = old, applied
	s.state.Files = append(files, merged.digest)
	return merged, journal.SaveState(s.statePath, s.state)
}

// finish records in the state file that the copy is complete.
func (s *syncer) finish(merged copyFile) error {
	read := s.walk.Checkpoint()
	s.state.SyncedUntil, s.state.Began, s.state.Applied, s.state.Records = read.SyncedUntil, read.Began, &merged.applied, merged.records
	if merged.path != "" {
		s.state.Files = []digest{merged.digest}
	}
	return journal.SaveState(s.statePath, s.state)
}
