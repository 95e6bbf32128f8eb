// Package importer imports a file's records into a service, as fast as the service's limits
// allow. Each record is stored once, however often the import is stopped and continued.
package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sluice/cmd/sluice/internal/journal"
	"sluice/cmd/sluice/internal/late"
	"sluice/pkg/client"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

type Options struct {
	importfile.Description
	Path       string // input file; "-" for standard input, which is in File
	File       string // copy of standard input; empty for another input
	OneByOne   bool   // create each event with its own call
	CreateOnly bool   // create each entity with its own call, instead of merging it into an existing one
	Workers    int    // concurrent calls, at least 1
	Journal    string // path of the journal; not used with standard input
	Rejects    string // path of the file for rejected records; an existing file must be empty or the reject file of an earlier import
	SaveAs     string // path of a file for the description; empty for none
	Again      bool   // import the file even if it was imported before
	Whole      bool   // with Mirror: also delete the entities that the file lacks; with Type, only those of that type

	// Confirm asks whether to delete what Whole found, with the number of entities by type.
	Confirm func(others map[string]int) error

	Waiting func() string                        // what the client is waiting for; "" while the service is responding
	Sleep   func(context.Context, time.Duration) // see late.Requests; for tests
}

type Result struct {
	Resource record.Resource `json:"resource"`
	File     string          `json:"file"`
	Complete bool            `json:"complete"` // whether every record of the file has a result
	Counts
	Removed      int64   `json:"removed,omitempty"`      // entities that the file lacks, and that this run deleted
	Calls        int64   `json:"calls"`                  // requests sent in this run, including retries
	CallsRefused int64   `json:"calls_refused"`          // requests sent in this run that a limit refused
	Seconds      float64 `json:"seconds"`                // duration of this run
	RejectsFile  string  `json:"rejects_file,omitempty"` // absent if no record was rejected
}

// Counts has the number of records with each result.
type Counts struct {
	Created  int64 `json:"created"`
	Existing int64 `json:"existing"` // already stored with the same content
	Updated  int64 `json:"updated"`  // merged into existing entities, or in place of them, with or without a change
	Deleted  int64 `json:"deleted"`  // deleted, or not there
	Rejected int64 `json:"rejected"`
}

func (c *Counts) add(d Counts) {
	c.Created += d.Created
	c.Existing += d.Existing
	c.Updated += d.Updated
	c.Deleted += d.Deleted
	c.Rejected += d.Rejected
}

func (c Counts) Total() int64 { return c.Created + c.Existing + c.Updated + c.Deleted + c.Rejected }

// checkpoint says where an import continues. It is saved in the import's journal.
type checkpoint struct {
	Line     int64  `json:"line"`     // the results of all records up to this line are saved
	Rejected bool   `json:"rejected"` // whether the record at Line was rejected
	Offset   int64  `json:"offset"`   // byte offset of the end of the record at Line
	Seed     string `json:"seed"`     // determines the ids of records that have none in the file: the SHA-256 of the file when the import began

	// Description is that of the import, with the types that the file had when the import began.
	Description importfile.Description `json:"description"`

	// Before is when the import began, by the service's clock: Whole deletes only what was there.
	Before record.Time `json:"before,omitzero"`

	Sent    int64         `json:"sent"` // line of the last record that may have been sent
	Rejects rejectContent `json:"rejects"`
	Counts  Counts        `json:"counts"`
}

type importer struct {
	Options
	client         *client.Client
	calls, refused atomic.Int64
	stored         atomic.Bool      // whether the service may have stored a record in this run
	lost           atomic.Bool      // whether a failed call in this round may have stored records
	journal        *journal.Journal // nil for standard input
	fresh          bool             // whether this run began the journal and has not committed anything yet
	began          time.Time        // when the first run began, minus clockSlack
	sentBefore     int64            // line of the last record that an earlier run may have sent
	work           work             // zero for standard input
	size           int64            // value of checkpoint.Offset at the end of the import; 0 if unknown
	rejects        *rejectFile
	late           late.Requests
	held           *row  // a row whose id is in the round before it
	removed        int64 // Result.Removed

	mu         sync.Mutex // guards checkpoint, which im.state reads concurrently
	checkpoint checkpoint
}

// Run imports a file and shows its progress on stderr. connect returns a client of the
// service. If an earlier run was stopped, Run imports the rest of the file. If an earlier run
// imported the whole file, Run imports it again only with o.Again. A rejected record does not
// stop Run, but any other error does. Another call with the same options then continues the
// import, unless its input is standard input. If an import has begun, Run returns the Result so far,
// even with an error; otherwise the Result's Resource is empty.
func Run(ctx context.Context, o Options, connect func(client.Config) (*client.Client, error), stderr io.Writer) (Result, error) {
	im := &importer{Options: o, late: late.Requests{Sleep: o.Sleep}}
	var err error
	if im.client, err = connect(client.Config{OnTry: im.onTry}); err != nil {
		return Result{}, err
	}
	source, err := im.client.Source(ctx)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	opened, err := os.Open(cmp.Or(o.File, o.Path))
	if err != nil {
		return Result{}, err
	}
	defer opened.Close() //nolint:errcheck // the file is only read
	file := inputFile{opened}
	if im.work, err = newWork(o, file); err == nil {
		err = im.check(ctx, file)
	}
	switch {
	case err != nil:
		return Result{}, err
	case o.Path == "-":
		im.checkpoint.Seed, im.began = im.work.SHA256, time.Now().Add(-clockSlack)
		if im.rejects, err = newRejects(o.Rejects, rejectContent{}); err == nil {
			err = im.run(ctx, file, stderr)
		}
	default:
		err = im.runFile(ctx, file, source, stderr)
	}
	if err != nil && im.rejects == nil {
		return Result{}, err
	}
	r := Result{
		Resource: o.Resource, File: o.Path, Complete: err == nil, Counts: im.checkpoint.Counts,
		Removed: im.removed, Calls: im.calls.Load(), CallsRefused: im.refused.Load(), Seconds: time.Since(began).Seconds(),
	}
	if r.Rejected > 0 {
		r.RejectsFile = o.Rejects
	}
	return r, err
}

func (im *importer) onTry(t client.Try) {
	if t.Route == client.SourceRoute || t.Route == client.IndexesRoute {
		return
	}
	im.late.OnTry(t)
	im.calls.Add(1)
	if t.Status < 300 || t.Status >= 500 {
		im.stored.Store(true)
		if t.Err != nil {
			im.lost.Store(true)
		}
	}
	if t.Status == http.StatusTooManyRequests {
		im.refused.Add(1)
	}
}

func (im *importer) runFile(ctx context.Context, file inputFile, journalSource string, stderr io.Writer) (err error) {
	var earlier work
	var known bool // whether the file begins with what the earlier import read
	task := journal.Task{Command: "import", Source: journalSource, Work: im.work}
	task.Remedy = "give this import a journal of its own with --journal"
	task.Same = func(text json.RawMessage) (same bool, err error) {
		if err = json.Unmarshal(text, &earlier); err == nil {
			known, err = im.work.includes(earlier, file)
		}
		return known && im.work.sameOptions(earlier), err
	}
	if im.journal, err = journal.Open(im.Journal, task, &im.checkpoint); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.journal.Close()) }()
	unknown := im.journal.ID == ""
	if unknown && known && im.Resource == earlier.Resource && !im.Again {
		return journal.Refuse("%s was already imported with other options; --again imports it once more", im.Path)
	}
	if finished, err := im.prepare(file, earlier.Size, stderr); finished || err != nil {
		return err
	}
	im.began, im.sentBefore = begunAt(im.journal.ID), im.checkpoint.Sent
	if im.sentBefore > im.checkpoint.Line {
		im.late.GiveUp()
		if err := im.settle(ctx, stderr); err != nil {
			return err
		}
	}
	err = im.run(ctx, file, stderr)
	if err == nil && im.Whole {
		err = im.removeOthers(ctx, file, stderr)
	}
	if err == nil {
		if size, err := file.size(); err == nil && size > im.work.Size {
			fmt.Fprintf(stderr, "%s has grown since this import began; the same command imports the rest.\n", im.Path)
		}
		return im.journal.Finish()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	// Restore the journal of an earlier, finished import. Without it, the file could be imported
	// again, and records without an id would be stored a second time.
	if !im.stored.Load() && (im.fresh || unknown && !im.journal.Used && ctx.Err() == nil) {
		return errors.Join(err, im.rejects.remove(), im.journal.Undo())
	}
	return journal.Continues(err, fmt.Sprintf("after %s of %s", im.rowName(im.checkpoint.Line), im.Path))
}

// prepare begins or continues the import. size is how much of the file the journal covers, in
// bytes. If nothing is left to do, finished is true.
func (im *importer) prepare(file inputFile, size int64, stderr io.Writer) (finished bool, err error) {
	at, grown := im.journal.FinishedAt, im.work.Size > size
	switch {
	case im.journal.ID == "" || at != nil && im.Again:
		if im.rejects, err = newRejects(im.Rejects, im.checkpoint.Rejects); err == nil {
			im.checkpoint, im.fresh = checkpoint{Before: im.before(), Seed: im.work.SHA256}, true
			err = im.journal.Begin()
		}
		return false, err
	case at != nil && !grown:
		fmt.Fprintf(stderr, "Already imported: finished at %s; --again imports the file again.\n", at.Format(time.RFC3339))
		return true, nil
	}
	if grown && !growable(im.Options, file) {
		return false, journal.Refuse("%s has grown since it was imported, which only an NDJSON or CSV file in UTF-8 may; --again imports the whole file, and stores records without an id a second time", im.Path)
	}
	if grown && im.checkpoint.Offset >= size {
		split, err := file.splitsLine(size)
		switch {
		case err != nil:
			return false, err
		case split && im.checkpoint.Rejected: // only the beginning of this line was read and rejected, so read the whole line now
			im.checkpoint.Line--
			im.checkpoint.Counts.Rejected--
		case split:
			return false, journal.Refuse("%s was imported up to the middle of line %d, which has changed since; --again imports the whole file, and stores records without an id a second time", im.Path, im.checkpoint.Line)
		}
	}
	fmt.Fprintf(stderr, "Continuing after %s.\n", im.rowName(im.checkpoint.Line))
	if im.rejects, err = resumeRejects(im.Rejects, im.checkpoint.Rejects, im.checkpoint.Line); err == nil && grown {
		err = im.journal.Extend()
	}
	return false, err
}

// clockSlack is how far apart the clocks of this machine and the service may be.
const clockSlack = time.Minute

// begunAt returns the time in a journal's id, a UUIDv7, minus clockSlack.
func begunAt(id string) time.Time {
	u, err := uuid.Parse(id)
	if err != nil {
		return time.Now()
	}
	return time.Unix(u.Time().UnixTime()).Add(-clockSlack)
}
