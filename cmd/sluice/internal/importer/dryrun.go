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

// maxShown is how many rejected records a DryRun has.
const maxShown = 20

// DryRun is what an import would do.
type DryRun struct {
	Resource record.Resource `json:"resource"`
	File     string          `json:"file"`
	DryRun   bool            `json:"dry_run"` // always true
	Valid    int64           `json:"valid"`   // records that would be sent
	Rejected int64           `json:"rejected"`
	First    json.RawMessage `json:"first"`   // first record that would be sent, with uuid.Nil for a new id; null if none
	Rejects  []reject        `json:"rejects"` // the first ones

	options Options
}

// Try reads a file like Run and checks every record, but calls no service and writes no file. A
// service can still reject a record, because it has another one with the same id.
func Try(ctx context.Context, o Options) (DryRun, error) {
	r := DryRun{Resource: o.Resource, File: o.Path, DryRun: true, Rejects: []reject{}, options: o}
	in := content{Reader: o.Stdin}
	if o.Path != "-" {
		opened, err := os.Open(o.Path)
		if err != nil {
			return r, err
		}
		defer opened.Close() //nolint:errcheck // the file is only read
		file := source{opened}
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
			err = r.add(rec)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != io.EOF {
		return r, fmt.Errorf("read %s: %w", o.Path, err)
	}
	return r, nil
}

// add counts a record.
func (r *DryRun) add(rec row) error {
	var sent any = rec.entity
	if r.options.events() {
		sent = rec.event
	}
	text, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	if rec.Err == nil && len(text) > record.MaxAttributesBytes {
		rec.Err = fmt.Errorf("the record is larger than %d bytes", record.MaxAttributesBytes)
	}
	if rec.Err != nil {
		r.Rejected++
		if len(r.Rejects) < maxShown {
			rec.setRejected(reject{Reason: rec.Err.Error()})
			r.Rejects = append(r.Rejects, *rec.reject)
		}
		return nil
	}
	if r.Valid++; r.First == nil {
		r.First = text
	}
	return nil
}

// Print writes r as text.
func (r DryRun) Print(w io.Writer, count func(int64) string) {
	fmt.Fprintf(w, "%s: %d would be sent, %d would be rejected. Nothing was sent.\n", count(r.Valid+r.Rejected), r.Valid, r.Rejected)
	if r.First != nil {
		fmt.Fprintf(w, "first: %s\n", r.First)
	}
	for _, rejected := range r.Rejects {
		fmt.Fprintf(w, "%s: %s\n", r.options.place(max(rejected.Line, rejected.Element)), rejected.Reason)
	}
	if more := r.Rejected - int64(len(r.Rejects)); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
