// Package exportjob writes all records of one kind to a file, because lists return only
// small pages. It has what a client orders and sees of such a job, and what one run does.
// Package job is the life of the job.
//
// A file is a single gzip member (RFC 1952), uploaded in parts. A job stores its parts, their
// checksum and the position of their last record, where the next run continues. So the file
// has every record once, whatever happens to runs.
package exportjob

import (
	"errors"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

var Kind = job.Kind{Name: "export", Keep: 180 * 24 * time.Hour}

// DefaultQuota is how many unfinished jobs a workspace may have by default.
const DefaultQuota = 10

// Format is that of a file before compression.
type Format = recordfile.Format

const (
	NDJSON = recordfile.NDJSON
	CSV    = recordfile.CSV
)

// Formulas says how a CSV file represents text that a spreadsheet would run as a formula.
type Formulas string

// Package recordfile describes the escaping.
const (
	NeutralizeFormulas Formulas = "neutralize" // with a leading apostrophe; the default
	KeepFormulas       Formulas = "keep"       // unchanged
)

func CheckFormulas(text string) error {
	if f := Formulas(text); f != NeutralizeFormulas && f != KeepFormulas {
		return errors.New("must be neutralize or keep")
	}
	return nil
}

// Filters select the records of a job; all records if they are zero. The JSON has only filters
// that are set.
type Filters struct {
	Type     string       `json:"type,omitzero"`      // only entities of this type
	EntityID string       `json:"entity_id,omitzero"` // only events of this entity
	Name     string       `json:"name,omitzero"`      // only events of this name, though the job reads the others too
	From     *record.Time `json:"from,omitzero"`      // only events that occurred at this time or later
	To       *record.Time `json:"to,omitzero"`        // only events that occurred before this time
}

// Order says which file a job writes. Its JSON is the body of the request.
type Order struct {
	ID          string          `json:"id"` // of the job
	Resource    record.Resource `json:"resource"`
	Format      Format          `json:"format"`
	Filters     Filters         `json:"filters"`
	CSVFormulas Formulas        `json:"csv_formulas,omitzero"` // only for CSV; NeutralizeFormulas by default
}

// Validate returns a *record.Error of kind Invalid with every invalid field.
func (o Order) Validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(o.ID))
	if o.Resource != record.Entity && o.Resource != record.Event {
		wrong.Add("resource", "must be entity or event")
	}
	if o.Format != NDJSON && o.Format != CSV {
		wrong.Add("format", "must be ndjson or csv")
	}
	if o.CSVFormulas != "" {
		wrong.Check("csv_formulas", CheckFormulas(string(o.CSVFormulas)))
	}
	f := o.Filters
	switch o.Resource {
	case record.Entity:
		if f.EntityID != "" || f.Name != "" || f.From != nil || f.To != nil {
			wrong.Add("filters", "for entities may have only type")
		}
		if f.Type != "" {
			wrong.Check("filters/type", record.CheckName(f.Type))
		}
	case record.Event:
		if f.Type != "" {
			wrong.Add("filters", "for events may have only entity_id, name, from and to")
		}
		if f.EntityID != "" {
			wrong.Check("filters/entity_id", record.CheckID(f.EntityID))
		}
		if f.Name != "" {
			wrong.Check("filters/name", record.CheckName(f.Name))
		}
		if f.From != nil && f.To != nil && f.From.Compare(*f.To) > 0 {
			wrong.Add("filters/from", "must not be later than to")
		}
	}
	return wrong.Err()
}

// Job is a job as the API shows it.
type Job struct {
	ID              string          `json:"id"`
	Resource        record.Resource `json:"resource"`
	Format          Format          `json:"format"`
	Filters         Filters         `json:"filters"`
	Status          job.Status      `json:"status"`
	RecordsWritten  int64           `json:"records_written"`  // including those that are not saved yet
	RecordsExpected *int64          `json:"records_expected"` // nil until the records have been counted
	SizeBytes       *int64          `json:"size_bytes"`       // size of the saved parts; nil before the first
	CreatedAt       record.Time     `json:"created_at"`
	StartedAt       *record.Time    `json:"started_at"`
	FinishedAt      *record.Time    `json:"finished_at"`
	DownloadURL     *string         `json:"download_url"` // only in the result of Get
	Error           *string         `json:"error"`        // why there is no file, for users
}

// state is what a job stores of its work.
type state struct {
	details
	progress
}

// details are what lists show, and what is needed after the job has ended.
type details struct {
	Order
	RecordsWritten  int64        `json:"records_written,omitzero"`
	RecordsExpected *int64       `json:"records_expected,omitzero"`
	SizeBytes       *int64       `json:"size_bytes,omitzero"`
	FileExpiresAt   *record.Time `json:"file_expires_at,omitzero"` // set when the job has succeeded
	Upload          string       `json:"upload,omitzero"`          // id of the upload in Files; "" before it starts
}

// progress is where a run continues.
type progress struct {
	Parts   []string `json:"parts,omitempty"`  // ETags of the upload's parts, in order
	Records int64    `json:"records,omitzero"` // how many records are in the parts
	Sum     checksum `json:"sum,omitzero"`     // checksum of the parts
	Cursor  string   `json:"cursor,omitzero"`  // the parts have all records of the job up to this one
	Written bool     `json:"written,omitzero"` // whether the parts have all records of the job
	Survey  survey   `json:"survey,omitzero"`  // for a CSV file
}

// survey is how far the search for attribute names, which become columns, has come.
type survey struct {
	Names   []string `json:"names,omitempty"`  // found so far, in byte order
	Cursor  string   `json:"cursor,omitzero"`  // of the last record that was read
	Records int64    `json:"records,omitzero"` // how many of the job's records were read so far
	Done    bool     `json:"done,omitzero"`
}
