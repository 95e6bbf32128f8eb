package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	api "sluice/pkg/client"
	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// exportOptions are the flags of export.
type exportOptions struct {
	connection
	path     string // - for standard output
	order    api.NewExportJob
	from, to string
	unpack   bool
	json     bool
}

func exportCommand(getenv func(string) string) *cobra.Command {
	o := exportOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "export {entity|event} -o FILE",
		Short: "Get records out into a file",
		Long: `Get all records of one kind, or those that the flags choose, out of a service
into a file, or to standard output (-). The service makes the file, in an export
job; this command orders the job, waits for it, downloads the file and checks it:
its size, its checksums, and that it has as many records as the job says. Only
then is it there under its name, or written to standard output; until then it
takes room beside FILE, or among the temporary files.

A file whose name ends in .gz stays compressed with gzip, as it comes; any other,
and standard output, is unpacked (--unpack says otherwise). CSV has a column
attributes.<name> for each attribute. "sluice import" takes both formats.

An export that was stopped, however it was, continues when the same command is
run again: the job goes on in the service meanwhile, and a download goes on where
it stopped. A journal beside the file, FILE.sluice-export, sees to that, until
all is done. Standard output has no journal, so there an interrupt cancels the
job.

The key needs the scope dashboard.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice export event -o events.ndjson.gz
  sluice export entity --type person --format csv -o people.csv
  sluice export event --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z -o january.csv.gz
  sluice export event --entity-id ada -o - | wc -l`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{string(exportjob.Entity), string(exportjob.Event)},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.order.Resource = exportjob.Resource(args[0])
			if !cmd.Flags().Changed("unpack") {
				o.unpack = !strings.HasSuffix(strings.ToLower(o.path), ".gz")
			}
			return runExport(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVarP(&o.path, "output", "o", "", "file to write; - for standard output")
	cmd.Flags().StringVar((*string)(&o.order.Format), "format", "", "ndjson or csv (default by the file's name; ndjson for -)")
	cmd.Flags().StringVar(&o.order.Filters.Type, "type", "", "only entities of this type")
	cmd.Flags().StringVar(&o.order.Filters.EntityID, "entity-id", "", "only events of this entity")
	cmd.Flags().StringVar(&o.from, "from", "", "only events at this time (RFC 3339) or later")
	cmd.Flags().StringVar(&o.to, "to", "", "only events before this time")
	cmd.Flags().StringVar((*string)(&o.order.CSVFormulas), "csv-formulas", "", "neutralize (default) or keep what a spreadsheet would run")
	cmd.Flags().BoolVar(&o.unpack, "unpack", false, "write the file unpacked (default unless its name ends in .gz)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	must(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{string(exportjob.NDJSON), string(exportjob.CSV)}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// must is for calls that fail only when the program is wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// check says what is wrong with the options, and sets what follows from others.
func (o *exportOptions) check() error {
	if o.path == "-" && o.json {
		return usageError("--json and -o - both want standard output")
	}
	if o.path == "" {
		return usageError("say with -o which file to write; - is standard output")
	}
	if info, err := os.Stat(o.path); err == nil && !info.Mode().IsRegular() {
		return usageError("-o %q is not a file that can be written anew; use - for standard output", o.path)
	}
	var err error
	if o.order.Format, err = chooseFormat(string(o.order.Format), o.path); err != nil {
		return err
	}
	f := &o.order.Filters
	for name, at := range map[string]struct {
		text string
		to   **record.Time
	}{"--from": {o.from, &f.From}, "--to": {o.to, &f.To}} {
		if at.text == "" {
			continue
		}
		t, err := record.ParseTime(at.text)
		if err != nil {
			return usageError("%s is %w", name, err)
		}
		*at.to = &t
	}
	order := exportjob.Job{ID: "valid", Resource: o.order.Resource, Format: o.order.Format, Filters: *f, CSVFormulas: o.order.CSVFormulas}
	if err := order.Validate(); err != nil {
		return usageError("%w", err)
	}
	return nil
}

// runExport is the command.
func runExport(ctx context.Context, o exportOptions, stdout, stderr io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	ex := &exporter{exportOptions: o, stderr: stderr}
	if ex.client, err = o.client(api.Config{MaxTries: patientTries, MaxElapsed: patientElapsed}); err != nil {
		return err
	}
	if o.path == "-" {
		dir, err := os.MkdirTemp("", "sluice-export-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
		ex.part = filepath.Join(dir, "part")
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		ex.order.ID = id.String()
	} else {
		if ex.journal, err = openExportJournal(o.path+".sluice-export", exportHead{URL: o.baseURL(), Order: o.order}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ex.journal.close()) }()
		ex.part, ex.order.ID = ex.journal.part(), ex.journal.head.Order.ID
	}
	result, err := ex.run(ctx, stdout)
	if err != nil {
		return ex.explain(ctx, err)
	}
	if o.json {
		return printJSON(stdout, result)
	}
	out := stdout
	if o.path == "-" {
		out, result.File = stderr, "standard output"
	}
	fmt.Fprintf(out, "%d %s in %s, checked: %d bytes of gzip in %.1f s.\n",
		result.Records, ex.noun(), result.File, result.SizeBytes, result.Seconds)
	return nil
}

// exportResult is what export prints as JSON.
type exportResult struct {
	Job       string             `json:"job"`
	Resource  exportjob.Resource `json:"resource"`
	Format    exportjob.Format   `json:"format"`
	File      string             `json:"file"`
	Records   int64              `json:"records"`
	SizeBytes int64              `json:"size_bytes"` // compressed
	Seconds   float64            `json:"seconds"`    // of this run
}
