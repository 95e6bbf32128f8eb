package importer

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
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
//
// Only for a CSV file of entities does it ask c, once, which attributes are indexed; c may be nil.
func Try(ctx context.Context, o Options, c *client.Client) (DryRun, error) {
	r := DryRun{File: o.Path, DryRun: true, options: o}
	opened, err := os.Open(cmp.Or(o.File, o.Path))
	if err != nil {
		return r, err
	}
	defer opened.Close() //nolint:errcheck // the file is only read
	file := inputFile{opened}
	w, err := newWork(o, file)
	if err == nil {
		err = (&importer{Options: o, work: w}).checkMirror(ctx, file)
	}
	if err != nil {
		return r, err
	}
	in, err := file.content(w)
	if err != nil {
		return r, err
	}
	each := func(importfile.Row) error { return context.Cause(ctx) }
	var indexes []importfile.Index
	var unknown error
	if c != nil {
		indexes, unknown = Indexes(ctx, c, o.Description)
	}
	if r.Report, err = importfile.Survey(in, o.Description, importfile.Options{Decode: decode, Indexes: indexes}, each); err != nil {
		return r, fmt.Errorf("read %s: %w", o.Path, err)
	}
	if unknown != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("the service did not say which attributes are indexed, and so have a type: %v", unknown))
	}
	if o.SaveAs != "" {
		err = save(r.Description, o.SaveAs)
	}
	if o.Whole {
		r.Notes = append(r.Notes, "entities that the file lacks would then be deleted, once you have been told how many")
	}
	return r, err
}

// maxShown is how many rows Print shows for each reason.
const maxShown = 5

// describe says what becomes of a column.
func (r DryRun) describe(c importfile.ColumnReport) string {
	text := fmt.Sprintf("column %s: %s", record.Shorten(c.Source), cmp.Or(c.Field, "left out"))
	if c.Type != "" {
		text += ", " + string(c.Type)
	}
	if c.Kinds != "" {
		text += " (" + c.Kinds + ")"
	}
	return text
}

func (r DryRun) Print(w io.Writer, count func(int64) string) {
	fmt.Fprintf(w, "%s: %d would be sent, %d would be rejected. Nothing was sent.\n", count(r.Valid+r.Rejected), r.Valid, r.Rejected)
	if r.First != nil {
		fmt.Fprintf(w, "first: %s\n", r.First)
	}
	for _, c := range r.Columns {
		fmt.Fprintln(w, r.describe(c))
	}
	for _, rejects := range r.Rejects {
		fmt.Fprintf(w, "%s, such as %s: %s\n", progress.Noun{One: "reject", Many: "rejects"}.Count(rejects.Count), r.options.rowName(rejects.Examples[0].Line), rejects.Reason)
		for _, rejected := range rejects.Examples[1:min(len(rejects.Examples), maxShown)] {
			fmt.Fprintf(w, "  %s: %s\n", r.options.rowName(rejected.Line), rejected.Reason)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}
