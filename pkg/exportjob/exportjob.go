// Package exportjob holds the export job: a client's order for a file of all
// its records of one kind, too many for lists. It says what a store of jobs and
// a store of files must do for it. Package worker carries jobs out.
//
// A file is a sequence of parts, each a whole gzip member (RFC 1952 lets them
// follow each other). A job remembers its parts and the place in the records
// where the last one ended. So whatever happens to a worker, the next one goes
// on behind the last part that was saved, and the file has every record once.
package exportjob

import (
	"cmp"
	"errors"
	"fmt"

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

// Size returns how many bytes the parts have together.
func (p Progress) Size() (n int64) {
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

// Compare returns -1, 0 or +1 as p is before, at or after q, the oldest first.
func (p Position) Compare(q Position) int {
	return cmp.Or(p.CreatedAt.Compare(q.CreatedAt), cmp.Compare(p.ID, q.ID))
}

// String returns the position as text that sorts as positions do. Stores use it
// as a sort key.
func (p Position) String() string { return p.CreatedAt.String() + "#" + p.ID }

// FileName returns the name under which a browser saves the file, such as
// event-<id>.ndjson.gz.
func (j Job) FileName() string { return fmt.Sprintf("%s-%s.%s.gz", j.Resource, j.ID, j.Format) }

// FileKey returns the name of the file among those of all workspaces.
func (j Job) FileKey() string { return escape(j.Workspace) + "/" + j.FileName() }

// escape returns text as one segment of any kind of path.
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
