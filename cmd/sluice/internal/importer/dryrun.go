package importer

import (
	"context"
	"fmt"
	"io"
	"os"

	"sluice/pkg/importfile"
)

// DryRun describes what an import would do.
type DryRun struct {
	File   string `json:"file"`
	DryRun bool   `json:"dry_run"` // always true
	importfile.Report

	options Options
}

// Try reads a file as Run does and checks every record, but calls no service and writes no
// file. A service can still reject a record if it has a different one with the same id.
func Try(ctx context.Context, o Options) (DryRun, error) {
	r := DryRun{File: o.Path, DryRun: true, options: o}
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
			err = (&importer{Options: o, work: w}).checkMirror(ctx, file)
		}
		if err == nil {
			in, err = file.content(w)
		}
		if err != nil {
			return r, err
		}
	}
	var err error
	each := func(importfile.Row) error { return context.Cause(ctx) }
	if r.Report, err = importfile.Survey(in, o.Description, importfile.Options{Decode: decode}, each); err != nil {
		err = fmt.Errorf("read %s: %w", o.Path, err)
	}
	if o.Whole {
		r.Notes = append(r.Notes, "entities that the file lacks would then be deleted, once you have been told how many")
	}
	return r, err
}

func (r DryRun) Print(w io.Writer, count func(int64) string) {
	fmt.Fprintf(w, "%s: %d would be sent, %d would be rejected. Nothing was sent.\n", count(r.Valid+r.Rejected), r.Valid, r.Rejected)
	if r.First != nil {
		fmt.Fprintf(w, "first: %s\n", r.First)
	}
	for _, rejects := range r.Rejects {
		for _, rejected := range rejects.Examples {
			fmt.Fprintf(w, "%s: %s\n", r.options.rowName(rejected.Line), rejected.Reason)
		}
		if more := rejects.Count - int64(len(rejects.Examples)); more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}
