// Package exportjob exports all records of one kind to a file, because lists return only small
// pages. It defines the requests and results of export jobs as clients see them, and the work
// of one run. Package job manages the life of a job.
//
// A file is a single gzip member (RFC 1952), uploaded in parts. A job stores the ETags of its
// parts, their checksum and the position of their last record, from which the next run
// continues. So the file has every record exactly once, even if runs fail.
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

// Format is the format of a file before compression.
type Format = recordfile.Format

const (
	NDJSON = recordfile.NDJSON
	CSV    = recordfile.CSV
)

// Formulas says how a CSV file represents text that a spreadsheet would evaluate as a formula.
type Formulas string

// Package recordfile describes the escaping.
const (
	NeutralizeFormulas Formulas = "neutralize" // put an apostrophe before each formula; the default
	KeepFormulas       Formulas = "keep"       // put an apostrophe only before formulas that already begin with one
)

func CheckFormulas(text string) error {
	if f := Formulas(text); f != NeutralizeFormulas && f != KeepFormulas {
		return errors.New("must be neutralize or keep")
	}
	return nil
}

// Filters select the records of a job. The zero value selects all records. The JSON contains
// only the filters that are set.
type Filters struct {
	Type     string       `json:"type,omitzero"`      // only entities of this type
	EntityID string       `json:"entity_id,omitzero"` // only events of this entity
	Name     string       `json:"name,omitzero"`      // only events with this name; the job still reads the others, but skips them
	From     *record.Time `json:"from,omitzero"`      // only events that occurred at this time or later
	To       *record.Time `json:"to,omitzero"`        // only events that occurred before this time
}

// Order describes the file that a job writes. Its JSON is the body of the create request.
type Order struct {
	ID          string          `json:"id"` // the job's id
	Resource    record.Resource `json:"resource"`
	Format      Format          `json:"format"`
	Filters     Filters         `json:"filters"`
	CSVFormulas Formulas        `json:"csv_formulas,omitzero"` // only for CSV; NeutralizeFormulas by default
}

// Validate returns a *record.Error of kind Invalid that lists every invalid field.
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
	RecordsWritten  int64           `json:"records_written"`  // including records of a part that is not saved yet
	RecordsExpected *int64          `json:"records_expected"` // nil until the records have been counted
	SizeBytes       *int64          `json:"size_bytes"`       // total size of the saved parts; nil if there are none
	CreatedAt       record.Time     `json:"created_at"`
	StartedAt       *record.Time    `json:"started_at"`
	FinishedAt      *record.Time    `json:"finished_at"`
	DownloadURL     *string         `json:"download_url"` // only Get sets it
	Error           *string         `json:"error"`        // tells users why there is no file
}

// state is what a job stores about its work.
type state struct {
	details
	progress
}

// details holds what lists show and what is needed after the job has ended.
type details struct {
	Order
	RecordsWritten  int64        `json:"records_written,omitzero"`
	RecordsExpected *int64       `json:"records_expected,omitzero"`
	SizeBytes       *int64       `json:"size_bytes,omitzero"`
	FileExpiresAt   *record.Time `json:"file_expires_at,omitzero"` // set when the job has succeeded
	Upload          string       `json:"upload,omitzero"`          // id of the upload in Files; "" before it starts
}

// progress says where the next run continues.
type progress struct {
	Parts   []string `json:"parts,omitempty"`  // ETags of the upload's parts, in order
	Records int64    `json:"records,omitzero"` // how many records are in the parts
	Sum     checksum `json:"sum,omitzero"`     // checksum of the parts' uncompressed content
	Cursor  string   `json:"cursor,omitzero"`  // the parts contain the job's records up to this position
	Written bool     `json:"written,omitzero"` // whether the parts contain all of the job's records
	Survey  survey   `json:"survey,omitzero"`  // only for a CSV file
}

// survey is the progress of the search for attribute names, which become columns.
type survey struct {
	Names   []string `json:"names,omitempty"`  // found so far, in byte order
	Cursor  string   `json:"cursor,omitzero"`  // position of the last record read
	Records int64    `json:"records,omitzero"` // how many of the job's records have been read so far
	Done    bool     `json:"done,omitzero"`
}
