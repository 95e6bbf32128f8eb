package api

import (
	"errors"

	"sluice/pkg/record"
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

// ExportFilters select the records of an export job. The zero value selects all records. The JSON
// contains only the filters that are set.
type ExportFilters struct {
	Type     string       `json:"type,omitzero"`      // only entities of this type
	EntityID string       `json:"entity_id,omitzero"` // only events of this entity
	Name     string       `json:"name,omitzero"`      // only events with this name; without an index by name, the job reads the others too, and skips them
	From     *record.Time `json:"from,omitzero"`      // only events that occurred at this time or later
	To       *record.Time `json:"to,omitzero"`        // only events that occurred before this time
}

// ExportOrder is the body of the request that creates an export job. It describes the file that
// the job writes.
type ExportOrder struct {
	ID          string          `json:"id"` // the job's id
	Resource    record.Resource `json:"resource"`
	Format      record.Format   `json:"format"` // record.NDJSON or record.CSV, before compression
	Filters     ExportFilters   `json:"filters"`
	CSVFormulas Formulas        `json:"csv_formulas,omitzero"` // only for CSV; NeutralizeFormulas by default
}

// Validate returns a *record.Error with code Invalid that lists every invalid field.
func (o ExportOrder) Validate() error {
	var wrong record.Fields
	wrong.Check("id", record.CheckID(o.ID))
	if o.Resource != record.Entity && o.Resource != record.Event {
		wrong.Add("resource", "must be entity or event")
	}
	if o.Format != record.NDJSON && o.Format != record.CSV {
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

// ExportJob is an export job as the API shows it.
type ExportJob struct {
	ID              string          `json:"id"`
	Resource        record.Resource `json:"resource"`
	Format          record.Format   `json:"format"`
	Filters         ExportFilters   `json:"filters"`
	Status          JobStatus       `json:"status"`
	RecordsWritten  int64           `json:"records_written"`  // including records of a part that is not saved yet
	RecordsExpected *int64          `json:"records_expected"` // nil until the records have been counted
	SizeBytes       *int64          `json:"size_bytes"`       // total size of the saved parts; nil if there are none
	CreatedAt       record.Time     `json:"created_at"`
	StartedAt       *record.Time    `json:"started_at"`
	FinishedAt      *record.Time    `json:"finished_at"`
	FileExpiresAt   *record.Time    `json:"file_expires_at"` // nil until the job has succeeded
	FileDeletedAt   *record.Time    `json:"file_deleted_at"` // nil unless a request deleted the file
	DownloadURL     *string         `json:"download_url"`    // only in the response to GET /export_job/{id}
	Error           *string         `json:"error"`           // tells users why there is no file
}
