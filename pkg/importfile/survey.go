package importfile

import (
	"encoding/json"
	"fmt"
	"io"

	"sluice/pkg/record"
)

// maxExamples is how many rows a Report shows for each reason.
const maxExamples = 20

// Report says what an import of a file would do.
type Report struct {
	Description Description `json:"description"` // with what the file decides, for the import

	Valid    int64           `json:"valid"`    // records that would be sent
	Rejected int64           `json:"rejected"` // rows that would be rejected
	First    json.RawMessage `json:"first"`    // first record that would be sent; null if there is none
	Rejects  []Rejects       `json:"rejects"`  // by reason, in the order of the first row of each
	Notes    []string        `json:"notes,omitempty"`
}

// Rejects are the rows that would be rejected for one reason.
type Rejects struct {
	Reason   string     `json:"reason"` // of the first row
	Count    int64      `json:"count"`
	Examples []Rejected `json:"examples"` // the first maxExamples rows
}

// Rejected is a row that would be rejected.
type Rejected struct {
	Line     int64  `json:"line"` // as in Row
	LastLine int64  `json:"last_line"`
	Reason   string `json:"reason"`
	Text     string `json:"text"` // shortened
}

// Survey reads a whole file and reports what an import would do. It makes no ids, so o.ID may be
// nil; an id of zeros stands for a new one. each may be nil; it is called after every row, and its
// error ends the survey. The report is also returned with an error, for the rows before it.
func Survey(file io.Reader, d Description, o Options, each func(Row) error) (Report, error) {
	report := Report{Description: d, Rejects: []Rejects{}}
	o.ID = func(int64) string { return "00000000-0000-0000-0000-000000000000" }
	rows, err := Open(file, d, o)
	if err != nil {
		return report, err
	}
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return report, err
		}
		report.add(&row)
		if each != nil {
			if err := each(row); err != nil {
				return report, err
			}
		}
	}
	if err := rows.Missing(false); err != nil {
		return report, err
	}
	if err := rows.Missing(true); err != nil {
		report.Notes = append(report.Notes, err.Error())
	}
	return report, nil
}

func (r *Report) add(row *Row) {
	var text []byte
	if row.Err == nil {
		if text = row.JSON(); len(text) > record.MaxAttributesBytes {
			row.Err = fmt.Errorf("the record is larger than %d bytes", record.MaxAttributesBytes)
		}
	}
	if row.Err != nil {
		r.Rejected++
		r.reject(row)
		return
	}
	if r.Valid++; r.First == nil {
		r.First = text
	}
}

func (r *Report) reject(row *Row) {
	reason := row.Err.Error()
	at := 0
	for at < len(r.Rejects) && r.Rejects[at].Reason != reason {
		at++
	}
	if at == len(r.Rejects) {
		r.Rejects = append(r.Rejects, Rejects{Reason: reason})
	}
	group := &r.Rejects[at]
	if group.Count++; len(group.Examples) < maxExamples {
		group.Examples = append(group.Examples, Rejected{row.Line, row.LastLine, reason, record.ShortenTo(row.Text, 200)})
	}
}
