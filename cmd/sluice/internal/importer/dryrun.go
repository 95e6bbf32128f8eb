package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"sluice/pkg/record"
)

// maxShown is the maximum number of rejected records that a DryRun lists.
const maxShown = 20

// DryRun describes what an import would do.
type DryRun struct {
	Resource record.Resource `json:"resource"`
	File     string          `json:"file"`
	DryRun   bool            `json:"dry_run"` // always true
	Valid    int64           `json:"valid"`   // records that would be sent
	Rejected int64           `json:"rejected"`
	First    json.RawMessage `json:"first"`          // first record that would be sent, with uuid.Nil in place of a new id; null if there is none
	Rejects  []reject        `json:"rejects"`        // the first maxShown rejected records
	Note     string          `json:"note,omitempty"` // warning that no record has a member that --map turns into an attribute

	options Options
}

// Try reads a file as Run does and checks every record, but calls no service and writes no
// file. A service can still reject a record if it has a different one with the same id.
func Try(ctx context.Context, o Options) (DryRun, error) {
	r := DryRun{Resource: o.Resource, File: o.Path, DryRun: true, Rejects: []reject{}, options: o}
	in := content{Reader: o.Stdin}
	if o.Path != "-" {
		opened, err := os.Open(o.Path)
		if err != nil {
			return r, err
		}
		defer opened.Close() //nolint:errcheck // the file is only read
		file := inputFile{opened}
		w, err := newWork(o, file)
		if err == nil {
			in, err = file.content(w)
		}
		if err != nil {
			return r, err
		}
	}
	records, err := openRecords(in, o, func(int64) string { return uuid.Nil.String() })
	for err == nil {
		var rec row
		if rec, err = records.read(); err == nil {
			r.add(rec)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != io.EOF {
		return r, fmt.Errorf("read %s: %w", o.Path, err)
	}
	if err := records.shape.checkFound(false); err != nil {
		return r, err
	}
	if err := records.shape.checkFound(true); err != nil {
		r.Note = err.Error()
	}
	return r, nil
}

func (r *DryRun) add(rec row) {
	text, err := r.check(rec)
	if err != nil {
		r.Rejected++
		if len(r.Rejects) < maxShown {
			rec.setRejected(reject{Reason: err.Error()})
			r.Rejects = append(r.Rejects, *rec.reject)
		}
		return
	}
	if r.Valid++; r.First == nil {
		r.First = text
	}
}

// check returns the JSON that an import would send.
func (r *DryRun) check(rec row) (text []byte, err error) {
	if rec.Err != nil {
		return nil, rec.Err
	}
	if r.options.events() {
		text, err = json.Marshal(rec.event)
	} else {
		text, err = json.Marshal(rec.entity)
	}
	if len(text) > record.MaxAttributesBytes {
		err = fmt.Errorf("the record is larger than %d bytes", record.MaxAttributesBytes)
	}
	return text, err
}

func (r DryRun) Print(w io.Writer, count func(int64) string) {
	fmt.Fprintf(w, "%s: %d would be sent, %d would be rejected. Nothing was sent.\n", count(r.Valid+r.Rejected), r.Valid, r.Rejected)
	if r.First != nil {
		fmt.Fprintf(w, "first: %s\n", r.First)
	}
	for _, rejected := range r.Rejects {
		fmt.Fprintf(w, "%s: %s\n", r.options.rowName(max(rejected.Line, rejected.Element)), rejected.Reason)
	}
	if more := r.Rejected - int64(len(r.Rejects)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	if r.Note != "" {
		fmt.Fprintf(w, "Note: %s.\n", r.Note)
	}
}
