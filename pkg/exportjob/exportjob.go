// Package exportjob holds the export job: a client's order for a file of all
// its records of one kind, too many for lists. It defines what a store of jobs
// and a store of files must do. Package worker carries jobs out.
//
// A file is a sequence of parts, each a whole gzip member (RFC 1952 allows
// several in a file). A job remembers its parts and the place in the records
// that they reach. So whatever happens to a worker, the next one continues behind
// the last part that was saved, and the file has every record once.
package exportjob

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// Resource is the kind of records that a job exports.
type Resource string

// The resources.
const (
	Entity Resource = "entity"
	Event  Resource = "event"
)

// Format is the format of a file, before compression.
type Format = recordfile.Format

// The formats.
const (
	NDJSON = recordfile.NDJSON
	CSV    = recordfile.CSV
)

// Formulas says how a CSV file shows text that a spreadsheet would run.
type Formulas string

// The ways to show it; see package recordfile.
const (
	Neutralize Formulas = "neutralize" // with an apostrophe in front; the default
	Keep       Formulas = "keep"       // as it is
)

// CheckFormulas returns an error if text is not one of the Formulas.
func CheckFormulas(text string) error {
	if f := Formulas(text); f != Neutralize && f != Keep {
		return errors.New("must be neutralize or keep")
	}
	return nil
}

// Status is the state of a job.
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

// Lane names the workers that a job waits for. New jobs have their own, so that
// none waits behind a large export.
type Lane string

// The lanes.
const (
	Fast Lane = "fast" // a new job's first run, which is short, and the removal of what a cancelled job has left
	Slow Lane = "slow" // every other run
)

// Lane returns the lane in which j waits for a run, "" if it waits for none.
func (j Job) Lane() Lane {
	switch {
	case j.Status == Cancelled, j.Status == Queued && j.StartedAt == nil:
		return Fast
	case j.Status == Queued:
		return Slow
	}
	return ""
}

// HistoryDays is for how long a store keeps a job after its creation, once the
// job has ended.
const HistoryDays = 180

// DefaultQuota is the most unfinished jobs of a workspace, unless an operator
// sets another number.
const DefaultQuota = 10

// Filters choose the records of a job. The zero value chooses all. Its JSON has
// only the filters that are set.
type Filters struct {
	Type     string       `json:"type,omitzero"`      // entities of this type
	EntityID string       `json:"entity_id,omitzero"` // events of this entity
	From     *record.Time `json:"from,omitzero"`      // events at this time or later
	To       *record.Time `json:"to,omitzero"`        // events before this time
}

// Job is an export job. Its JSON is that of the API; stores keep more (Marshal).
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
	DownloadURL     *string      `json:"download_url"` // set for a response (Show), never stored
	Error           *string      `json:"error"`        // why there is no file, for people

	Workspace     string       `json:"-"`
	CSVFormulas   Formulas     `json:"-"` // "" unless Format is CSV
	FileExpiresAt *record.Time `json:"-"` // of a succeeded job
	Revision      int64        `json:"-"` // counts the changes of a job, from 1
	Progress      Progress     `json:"-"` // zero in lists
}

// Progress is what a worker needs in order to continue a job. A job that has
// ended keeps only Upload, and that only unless it has succeeded.
type Progress struct {
	Run     string   `json:"run,omitzero"`     // the run of a worker that holds the job; "" while none does
	Tries   int      `json:"tries,omitzero"`   // runs that took the job since Cursor or Survey.Cursor last moved
	Upload  string   `json:"upload,omitzero"`  // what Files calls the upload of the file; "" before there is one
	Parts   []string `json:"parts,omitempty"`  // ETags of the upload's parts, in order
	Records int64    `json:"records,omitzero"` // in the parts
	Cursor  string   `json:"cursor,omitzero"`  // of the last record looked at: all before it are in the parts, or do not belong to the job
	Written bool     `json:"written,omitzero"` // the parts are the whole file
	Survey  Survey   `json:"survey,omitzero"`  // of a CSV file's attributes
}

// Survey is what is known of the attributes of a job's records. Its zero value
// knows nothing.
type Survey struct {
	Names   []string `json:"names,omitempty"`  // of the attributes found, in the order of bytes
	Cursor  string   `json:"cursor,omitzero"`  // of the last record looked at
	Records int64    `json:"records,omitzero"` // that were looked at and belong to the job
	Done    bool     `json:"done,omitzero"`    // all records were looked at
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
	if j.CSVFormulas != "" {
		wrong.Check("csv_formulas", CheckFormulas(string(j.CSVFormulas)))
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

// Position returns the place of j in a list.
func (j Job) Position() Position { return Position{CreatedAt: j.CreatedAt, ID: j.ID} }

// String returns the position as text that sorts as positions do. Stores use it
// as a sort key.
func (p Position) String() string { return p.CreatedAt.String() + "#" + p.ID }

// FileName returns the name under which a browser saves the file, such as
// entities-2026-11-22.ndjson.gz. The date is that of the job's creation in UTC.
func (j Job) FileName() string {
	plural := map[Resource]string{Entity: "entities", Event: "events"}[j.Resource]
	return fmt.Sprintf("%s-%s.%s.gz", plural, j.CreatedAt.Time().Format(time.DateOnly), j.Format)
}

// FileKey returns the name of the file among those of all workspaces: a path of
// two segments, whatever the name of the workspace.
func (j Job) FileKey() string {
	return strings.ReplaceAll(url.PathEscape(j.Workspace), ".", "%2E") + fmt.Sprintf("/%s-%s.%s.gz", j.Resource, j.ID, j.Format)
}
