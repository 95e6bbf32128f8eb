// Package exportjob holds the export job: a client's order for a file of all
// its records of one kind, too many for lists, and the worker that carries it
// out. It says what a store of jobs, the place of files and the sources of
// records must do for it.
//
// A file is a row of parts, each a whole gzip member (RFC 1952 lets them follow
// each other). A job remembers its parts and the place in the records where the
// last one ended. So whatever happens to a worker, the next one goes on behind
// the last part that was saved, and the file has every record once.
package exportjob

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sluice/pkg/record"
)

// Resource is the kind of records that a job exports.
type Resource string

// The resources.
const (
	Entity Resource = "entity"
	Event  Resource = "event"
)

// Format is how a file shows records.
type Format string

// The formats.
const (
	NDJSON Format = "ndjson" // a line for each record: its JSON as the API shows it
	CSV    Format = "csv"    // RFC 4180; see Columns
)

// Formulas is what becomes of CSV cells that a spreadsheet would run.
type Formulas string

// The ways to treat them.
const (
	Neutralize Formulas = "neutralize" // an apostrophe is put before them; the default
	Keep       Formulas = "keep"       // they stay as they are
)

// Status is where a job stands.
type Status string

// The statuses. The last three are final.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Final reports whether a job of this status will not change any more.
func (s Status) Final() bool { return s == Succeeded || s == Failed || s == Cancelled }

// HistoryDays is for how long a store keeps a job after its creation.
const HistoryDays = 180

// Filters choose the records of a job. The zero value chooses all. Its JSON has
// only the filters that are set.
type Filters struct {
	Type     string       `json:"type,omitzero"`      // entities of this type
	EntityID string       `json:"entity_id,omitzero"` // events of this entity
	From     *record.Time `json:"from,omitzero"`      // events at this time or later
	To       *record.Time `json:"to,omitzero"`        // events before this time
}

// Job is an export job. Its JSON is its shape on the wire; stores keep more of
// it (Marshal).
type Job struct {
	ID              string       `json:"id"`
	Resource        Resource     `json:"resource"`
	Format          Format       `json:"format"`
	Filters         Filters      `json:"filters"`
	Status          Status       `json:"status"`
	RecordsWritten  int64        `json:"records_written"`  // also those that a worker has not saved yet
	RecordsExpected *int64       `json:"records_expected"` // nil until they have been counted
	SizeBytes       *int64       `json:"size_bytes"`       // of the file as far as it is saved; nil without one
	CreatedAt       record.Time  `json:"created_at"`
	StartedAt       *record.Time `json:"started_at"`
	FinishedAt      *record.Time `json:"finished_at"`
	DownloadURL     *string      `json:"download_url"` // set for an answer (Show), never stored
	Error           *string      `json:"error"`        // why there is no file, for people

	Workspace     string       `json:"-"`
	CSVFormulas   Formulas     `json:"-"` // "" unless Format is CSV
	FileExpiresAt *record.Time `json:"-"` // of a succeeded job
	Revision      int64        `json:"-"` // counts the changes of a job, from 1
	Progress      Progress     `json:"-"`
}

// Progress is what a worker needs to know in order to go on with a job.
type Progress struct {
	Run     string `json:"run,omitzero"`     // the run of a worker that holds the job; "" while none does
	Tries   int    `json:"tries,omitzero"`   // runs that took the job since the last that got anything done
	Upload  string `json:"upload,omitzero"`  // what Files calls the upload of the file; "" before there is one
	Parts   []Part `json:"parts,omitempty"`  // of the upload, in order
	Records int64  `json:"records,omitzero"` // in the parts
	Cursor  string `json:"cursor,omitzero"`  // of the last record in the parts; "" before the first
	Written bool   `json:"written,omitzero"` // the parts are the whole file
	Survey  Survey `json:"survey,omitzero"`  // of a CSV file's attributes
}

// Part is a part of a file that has been uploaded.
type Part struct {
	ETag string `json:"etag"` // what Files called its content
	Size int64  `json:"size"` // bytes
}

// Survey is what is known of the attributes of a job's records. Its zero value
// knows nothing.
type Survey struct {
	Names   []string `json:"names,omitempty"`  // of the attributes met, in the order of bytes
	Cursor  string   `json:"cursor,omitzero"`  // of the last record looked at
	Records int64    `json:"records,omitzero"` // that were looked at
	Done    bool     `json:"done,omitzero"`    // that were all
}

// size is how many bytes the parts have together.
func (p Progress) size() (n int64) {
	for _, part := range p.Parts {
		n += part.Size
	}
	return n
}

// Validate checks the fields that a client sets. The error is a *record.Error
// of kind Invalid that names every wrong field.
func (j Job) Validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(j.ID))
	if j.Resource != Entity && j.Resource != Event {
		wrong.Add("resource", "must be entity or event")
	}
	if j.Format != NDJSON && j.Format != CSV {
		wrong.Add("format", "must be ndjson or csv")
	}
	if j.CSVFormulas != "" && j.CSVFormulas != Neutralize && j.CSVFormulas != Keep {
		wrong.Add("csv_formulas", "must be neutralize or keep")
	}
	f := j.Filters
	switch j.Resource {
	case Entity:
		if f.EntityID != "" || f.From != nil || f.To != nil {
			wrong.Add("filters", "for entities may have only type")
		}
		if f.Type != "" {
			wrong.Check("filters/type", record.CheckName(f.Type))
		}
	case Event:
		if f.Type != "" {
			wrong.Add("filters", "for events may have only entity_id, from and to")
		}
		if f.EntityID != "" {
			wrong.Check("filters/entity_id", record.CheckID(f.EntityID))
		}
		if f.From != nil && f.To != nil && f.From.Compare(*f.To) > 0 {
			wrong.Add("filters/from", "is later than to")
		}
	}
	return wrong.Err()
}

// Position is a job's place in a list.
type Position struct {
	CreatedAt record.Time
	ID        string
}

// Position is where j stands in a list.
func (j Job) Position() Position { return Position{CreatedAt: j.CreatedAt, ID: j.ID} }

// Compare is -1, 0 or +1 as p stands before, at or after q, the oldest first.
func (p Position) Compare(q Position) int {
	return cmp.Or(p.CreatedAt.Compare(q.CreatedAt), cmp.Compare(p.ID, q.ID))
}

// String is the position as text that sorts as positions do. Stores use it as a
// sort key.
func (p Position) String() string { return p.CreatedAt.String() + "#" + p.ID }

// Query asks for a page of a workspace's jobs, the newest first.
type Query struct {
	Before *Position // exclusive; nil starts at the newest
	Limit  int       // most jobs to return, at least 1
}

// Page is a part of a list.
type Page struct {
	Jobs []Job
	More bool // there are jobs older than the last of these
}

// Store keeps jobs by workspace and id. Implementations are safe for concurrent
// use. A workspace is a non-empty string without '#'.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Create stores j unless its workspace has a job with its id. It returns
	// the job that is stored afterwards and whether that is j.
	Create(ctx context.Context, j Job) (stored Job, created bool, err error)

	// Get returns a job, or a *record.Error of kind NotFound. It sees every
	// change that was made before the call.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// List returns the jobs that q asks for. The page may be shorter than
	// q.Limit while More is true.
	List(ctx context.Context, workspace string, q Query) (Page, error)

	// Replace stores j over the job of its id whose Revision is one less. It
	// returns the job that is stored afterwards and whether that is j; or a
	// *record.Error of kind NotFound, when there is none of that id.
	Replace(ctx context.Context, j Job) (stored Job, replaced bool, err error)
}

// noun is what errors call a job.
const noun = "export job"

// NotFoundError says that there is no job of the id.
func NotFoundError(id string) error { return record.NotFoundError(noun, id) }

// Create validates j, queues it at now and stores it. A repeat with the same
// content changes nothing and returns the stored job with created false; with
// other content it fails with kind Conflict.
func Create(ctx context.Context, s Store, j Job, now time.Time) (stored Job, created bool, err error) {
	if err := j.Validate(); err != nil {
		return Job{}, false, err
	}
	switch {
	case j.Format != CSV:
		j.CSVFormulas = ""
	case j.CSVFormulas == "":
		j.CSVFormulas = Neutralize
	}
	j.Status, j.CreatedAt, j.Revision = Queued, record.TimeOf(now), 1
	stored, created, err = s.Create(ctx, j)
	if err != nil {
		return Job{}, false, err
	}
	if !created && !j.sameOrder(stored) {
		return Job{}, false, record.ConflictError(noun, j.ID)
	}
	return stored, created, nil
}

// sameOrder reports whether j and k ask for the same file.
func (j Job) sameOrder(k Job) bool {
	same := func(a, b *record.Time) bool { return a == b || a != nil && b != nil && *a == *b }
	return j.Resource == k.Resource && j.Format == k.Format && j.CSVFormulas == k.CSVFormulas &&
		j.Filters.Type == k.Filters.Type && j.Filters.EntityID == k.Filters.EntityID &&
		same(j.Filters.From, k.Filters.From) && same(j.Filters.To, k.Filters.To)
}

// Cancel ends a job that has not ended. Its worker, if there is one, stops as
// soon as it wants to save something, and removes what there is of the file. A
// job that is cancelled already is returned as it is: so a call can be repeated.
// One that has succeeded or failed is a *record.Error of kind Conflict.
func Cancel(ctx context.Context, s Store, workspace, id string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		if j.Status.Final() {
			return Job{}, &record.Error{Kind: record.Conflict, Detail: fmt.Sprintf("the export job has %s already; only one that is queued or running can be cancelled", j.Status)}
		}
		return j.finished(Cancelled, now), nil
	}, func(j Job) bool { return j.Status == Cancelled })
}

// take gives a job that has not ended to a run, which holds it until another
// takes it, it is cancelled or the run ends it. One that has ended comes back
// as it is.
func take(ctx context.Context, s Store, workspace, id, run string, now time.Time) (Job, error) {
	return change(ctx, s, workspace, id, func(j Job) (Job, error) {
		j.Status = Running
		if j.StartedAt == nil {
			started := record.TimeOf(now)
			j.StartedAt = &started
		}
		j.RecordsWritten = j.Progress.Records // what the last run had not saved is gone
		j.Progress.Run = run
		j.Progress.Tries++
		return j, nil
	}, func(j Job) bool { return j.Status.Final() })
}

// change replaces a job by what edit makes of it, again and again until nothing
// came between. A job that is settled is left and returned as it is.
func change(ctx context.Context, s Store, workspace, id string, edit func(Job) (Job, error), settled func(Job) bool) (Job, error) {
	j, err := s.Get(ctx, workspace, id)
	for err == nil && !settled(j) {
		var next Job
		if next, err = edit(j); err != nil {
			break
		}
		next.Revision++
		var replaced bool
		if j, replaced, err = s.Replace(ctx, next); replaced {
			return j, err
		}
	}
	return j, err
}

// finished is j as it ends.
func (j Job) finished(status Status, now time.Time) Job {
	at := record.TimeOf(now)
	j.Status, j.FinishedAt = status, &at
	return j
}

// FileName is what a browser calls the file: event-<id>.ndjson.gz.
func (j Job) FileName() string { return fmt.Sprintf("%s-%s.%s.gz", j.Resource, j.ID, j.Format) }

// FileKey is the name of the file among those of all workspaces.
func (j Job) FileKey() string { return escape(j.Workspace) + "/" + j.FileName() }

// escape writes text such that it is one segment of any kind of path.
func escape(text string) string {
	var b []byte
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
			b = append(b, c)
		default:
			b = fmt.Appendf(b, "%%%02X", c)
		}
	}
	return string(b)
}

// Links makes links to files.
type Links interface {
	// Link is a URL that gives out the file of a succeeded job to whoever has
	// it, for a while. One that starts with '/' is a path of this very server.
	Link(ctx context.Context, j Job) (string, error)
}

// Show is j with a link to its file, if it has one, or the reason that it has
// none any more.
func Show(ctx context.Context, links Links, j Job, now time.Time) (Job, error) {
	switch {
	case j.Status != Succeeded:
		return j, nil
	case j.FileExpiresAt != nil && j.FileExpiresAt.Compare(record.TimeOf(now)) <= 0:
		reason := fmt.Sprintf("The file expired at %s. Start the export again to get a new one.", j.FileExpiresAt)
		j.Error = &reason
		return j, nil
	}
	link, err := links.Link(ctx, j)
	if err != nil {
		return Job{}, fmt.Errorf("link to export file: %w", err)
	}
	j.DownloadURL = &link
	return j, nil
}
