// Package exportjob defines export jobs. An export job writes all records of one kind
// into a file, because lists return only small pages. The package defines the job, its
// states, and the interfaces of the stores of jobs and files. Package worker executes
// jobs.
//
// A file is a sequence of parts. Each part is a complete gzip member, and RFC 1952 allows
// several members in a file. A job stores its parts and the position of the last record
// in them. If a worker stops for any reason, the next worker continues after the last
// saved part. The file therefore contains every record exactly once.
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

// Format is the format of a file, before compression.
type Format = recordfile.Format

// The file formats.
const (
	NDJSON = recordfile.NDJSON
	CSV    = recordfile.CSV
)

// Formulas says how a CSV file shows text that a spreadsheet would execute as a
// formula.
type Formulas string

// The values of Formulas. Package recordfile describes the escaping.
const (
	Neutralize Formulas = "neutralize" // shows such text with a leading apostrophe; this is the default
	Keep       Formulas = "keep"       // shows such text unchanged
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

// Final reports whether s is final. A job with a final status does not change again.
func (s Status) Final() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Lane is the queue in which a job waits for a run of a worker. New jobs have a
// separate lane, so they do not wait for large exports.
type Lane string

// The lanes.
const (
	Fast Lane = "fast" // the short first run of a new job, and the cleanup after a cancelled job
	Slow Lane = "slow" // all other runs
)

// Lane returns the lane in which j waits for a run. If j does not wait for a run, Lane
// returns "".
func (j Job) Lane() Lane {
	switch {
	case j.Status == Cancelled, j.Status == Queued && j.StartedAt == nil:
		return Fast
	case j.Status == Queued:
		return Slow
	}
	return ""
}

// HistoryDays is the minimum number of days for which a store keeps a job, counted from the
// creation of the job. A store never removes a job that has not ended.
const HistoryDays = 180

// DefaultQuota is the default maximum number of unfinished jobs per workspace.
const DefaultQuota = 10

// Filters select the records of a job. The zero value selects all records. The JSON
// contains only the filters that are set.
type Filters struct {
	Type     string       `json:"type,omitzero"`      // only entities of this type
	EntityID string       `json:"entity_id,omitzero"` // only events of this entity
	From     *record.Time `json:"from,omitzero"`      // only events that occurred at this time or later
	To       *record.Time `json:"to,omitzero"`        // only events that occurred before this time
}

// Job is an export job. Its JSON form is that of the API. Stores keep more fields (see
// [Marshal]).
type Job struct {
	ID              string          `json:"id"`
	Resource        record.Resource `json:"resource"`
	Format          Format          `json:"format"`
	Filters         Filters         `json:"filters"`
	Status          Status          `json:"status"`
	RecordsWritten  int64           `json:"records_written"`  // number of written records, including records that are not saved yet
	RecordsExpected *int64          `json:"records_expected"` // number of records to write; nil until they have been counted
	SizeBytes       *int64          `json:"size_bytes"`       // size of the saved parts; nil before the first part is saved
	CreatedAt       record.Time     `json:"created_at"`
	StartedAt       *record.Time    `json:"started_at"`
	FinishedAt      *record.Time    `json:"finished_at"`
	DownloadURL     *string         `json:"download_url"` // set by Show, never stored
	Error           *string         `json:"error"`        // reason why the file does not exist, as text for users

	Workspace     string       `json:"-"`
	CSVFormulas   Formulas     `json:"-"` // "" if Format is not CSV
	FileExpiresAt *record.Time `json:"-"` // set when the job has succeeded
	Revision      int64        `json:"-"` // number of the latest change of the job, counted from 1
	Progress      Progress     `json:"-"` // zero in the jobs of a list
}

// Progress is the state that a worker needs to continue a job. A job that failed or
// was cancelled keeps only Upload. A job that succeeded keeps nothing.
type Progress struct {
	Run     string   `json:"run,omitzero"`     // id of the worker's run that holds the job; "" if no run holds it
	Tries   int      `json:"tries,omitzero"`   // number of runs that took the job since Cursor or Survey.Cursor last changed
	Upload  string   `json:"upload,omitzero"`  // id of the upload in Files; "" before the upload starts
	Parts   []string `json:"parts,omitempty"`  // ETags of the upload's parts, in order
	Records int64    `json:"records,omitzero"` // number of records in the parts
	Cursor  string   `json:"cursor,omitzero"`  // cursor of a record; the parts contain all records of the job up to this cursor
	Written bool     `json:"written,omitzero"` // true if the parts contain all records of the job
	Survey  Survey   `json:"survey,omitzero"`  // state of the search for the attribute names that become columns of a CSV file
}

// Survey is the state of the search for the attributes of a job's records. The zero
// value means that no record has been read yet.
type Survey struct {
	Names   []string `json:"names,omitempty"`  // names of the attributes found so far, in byte order
	Cursor  string   `json:"cursor,omitzero"`  // cursor of the last record that was read
	Records int64    `json:"records,omitzero"` // number of records read so far that belong to the job
	Done    bool     `json:"done,omitzero"`    // true if all records have been read
}

// Validate checks the fields that a client sets. It returns a *record.Error of kind
// Invalid that names every invalid field.
func (j Job) Validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(j.ID))
	if j.Resource != record.Entity && j.Resource != record.Event {
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
	case record.Entity:
		if f.EntityID != "" || f.From != nil || f.To != nil {
			wrong.Add("filters", "for entities may have only type")
		}
		if f.Type != "" {
			wrong.Check("filters/type", record.CheckName(f.Type))
		}
	case record.Event:
		if f.Type != "" {
			wrong.Add("filters", "for events may have only entity_id, from and to")
		}
		if f.EntityID != "" {
			wrong.Check("filters/entity_id", record.CheckID(f.EntityID))
		}
		if f.From != nil && f.To != nil && f.From.Compare(*f.To) > 0 {
			wrong.Add("filters/from", "must not be later than to")
		}
	}
	return wrong.Err()
}

// Position returns the position of j in a list.
func (j Job) Position() record.Position { return record.Position{At: j.CreatedAt, ID: j.ID} }

// FileName returns the name under which a browser saves the file, such as
// entities-2026-11-22.ndjson.gz. The date is that of the job's creation in UTC.
func (j Job) FileName() string {
	return fmt.Sprintf("%s-%s.%s.gz", j.Resource.Plural(), j.CreatedAt.Time().Format(time.DateOnly), j.Format)
}

// FileKey returns the name of the job's file, which is unique among all workspaces. It is
// always a path of two segments, no matter which characters the workspace contains.
func (j Job) FileKey() string {
	return strings.ReplaceAll(url.PathEscape(j.Workspace), ".", "%2E") + fmt.Sprintf("/%s-%s.%s.gz", j.Resource, j.ID, j.Format)
}
