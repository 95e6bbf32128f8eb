package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "sluice/pkg/client"
	"sluice/pkg/recordfile"
)

// importOptions are the flags of import.
type importOptions struct {
	connection
	resource string // events or entities
	path     string
	format   recordfile.Format
	oneByOne bool
	update   bool
	workers  int
	journal  string
	rejects  string
	again    bool
	json     bool
}

func importCommand(getenv func(string) string) *cobra.Command {
	o := importOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "import {events|entities} FILE",
		Short: "Put the records of a file in",
		Long: `Put the records of a file, or of standard input (-), into a service.

The file is NDJSON, one JSON object a line, or CSV with a header; it may be
compressed with gzip. Its fields are those of the API; created_at and updated_at,
which exports have, are passed over. CSV has a column attributes.<name> for each
attribute, or attributes with JSON. In a cell of an attribute an object or a list
is what it is in JSON, and so is a number, true, false or null without quotes;
anything else is text; an empty cell without quotes is nothing. An apostrophe that
an export adds is taken away. A CSV file that was exported comes back as it was.

Events go in batches, or with --one-by-one each in a call of its own; entities
always do. The import runs at the service's limits and keeps to them. A call that
fails for a passing reason is repeated up to 40 times within two minutes.

An import that was stopped, however it was, continues when the same command is
run again, and ends with each record once. A journal beside the file,
FILE.sluice-import, sees to that: records without an id get the same one every
time. It stays there when all is done, so that running the command once more
imports nothing twice; --again begins anew, with new ids. Standard input has no
journal.

A record that is not accepted goes to FILE.rejects.ndjson with its line number
and the reason. That includes an entity whose id is taken by other content;
with --update its attributes are merged into the one that is there (RFC 7396:
null removes one), unless their types differ. Ids should be unique in a file:
which of two records with one id is taken is not determined.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice import events events.ndjson
  sluice import entities --update people.csv.gz
  zcat old-*.gz | sluice import events --format ndjson -
  SLUICE_URL=https://api.example.com SLUICE_API_KEY=slc_… sluice import events events.csv`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"events", "entities"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.resource, o.path = args[0], args[1]
			return runImport(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar((*string)(&o.format), "format", "", "ndjson or csv (default by the file's name)")
	cmd.Flags().BoolVar(&o.oneByOne, "one-by-one", false, "create each event in a call of its own")
	cmd.Flags().BoolVar(&o.update, "update", false, "merge into entities that are there with other content")
	cmd.Flags().IntVar(&o.workers, "workers", 4, "calls at the same time, 1 to 64")
	cmd.Flags().StringVar(&o.journal, "journal", "", "file for the journal (default FILE.sluice-import)")
	cmd.Flags().StringVar(&o.rejects, "rejects", "", "file for rejected records (default FILE.rejects.ndjson, of - rejects.ndjson)")
	cmd.Flags().BoolVar(&o.again, "again", false, "import a file again that has been imported")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

// check says what is wrong with the options, and sets what follows from others.
func (o *importOptions) check() error {
	switch {
	case o.resource != "events" && o.resource != "entities":
		return usageError("import events or entities, not %q", o.resource)
	case o.workers < 1 || o.workers > 64:
		return usageError("--workers must be 1 to 64")
	case o.resource == "entities" && o.oneByOne:
		return usageError("--one-by-one is for events; entities always are")
	case o.resource == "events" && o.update:
		return usageError("--update is for entities; events never change")
	}
	var err error
	if o.format, err = chooseFormat(string(o.format), o.path); err != nil {
		return err
	}
	name := o.path
	if o.path == "-" {
		name = ""
	}
	if o.rejects == "" {
		o.rejects = strings.TrimPrefix(name+".rejects.ndjson", ".")
	}
	if o.journal == "" {
		o.journal = name + ".sluice-import"
	}
	if o.rejects == o.path || o.journal == o.path || o.rejects == o.journal {
		return usageError("the file, its journal and the reject file must be three")
	}
	return nil
}

// runImport is the command.
func runImport(ctx context.Context, o importOptions, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	im := &importer{importOptions: o}
	if im.client, err = o.client(api.Config{MaxTries: patientTries, MaxElapsed: patientElapsed, OnTry: im.onTry}); err != nil {
		return err
	}
	file := stdin
	if o.path == "-" {
		fmt.Fprintln(stderr, "Standard input has no journal: if this is stopped, sending it again doubles records without an id.")
		im.seed = newSeed()
	} else {
		f, err := os.Open(o.path)
		if err != nil {
			return usageError("%w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		if file, err = im.resume(f, stderr); err != nil {
			return err
		}
		if im.journal != nil {
			defer func() { err = errors.Join(err, im.journal.close()) }()
		}
	}
	if im.finishedBefore == nil {
		if err := im.run(ctx, file, stderr); err != nil {
			return im.explain(ctx, err)
		}
	}
	return im.report(stdout, stderr)
}

// resume opens the journal of a file, and what it says is done.
func (im *importer) resume(f *os.File, stderr io.Writer) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usageError("%s is not a regular file, so it can have no journal; import it by - from standard input", f.Name())
	}
	head := importHead{Version: 1, Resource: im.resource, Format: im.format, URL: im.baseURL()}
	if head.Size, head.SHA256, err = identify(f); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if im.journal, err = openJournal(im.importOptions.journal, head); err != nil {
		return nil, err
	}
	im.size = head.Size
	if im.journal.mark.FinishedAt != nil && im.again {
		im.journal.mark = importMark{}
		if err := im.journal.begin(); err != nil {
			return nil, err
		}
	}
	im.seed, im.mark, im.finishedBefore = im.journal.head.Seed, im.journal.mark, im.journal.mark.FinishedAt
	switch {
	case im.finishedBefore != nil:
		fmt.Fprintf(stderr, "Imported already, finished at %s; --again imports it again.\n", im.finishedBefore.Format(time.RFC3339))
	case im.mark.Line > 0:
		fmt.Fprintf(stderr, "Continuing after line %d.\n", im.mark.Line)
	}
	im.expected = head.SHA256
	return f, nil
}

// explain adds to an error what to do.
func (im *importer) explain(ctx context.Context, err error) error {
	err = interrupted(ctx, err)
	if im.journal == nil {
		return err
	}
	return fmt.Errorf("%w\nAfter line %d of %s; the same command continues there", err, im.mark.Line, im.path)
}

// importResult is what import prints as JSON.
type importResult struct {
	Resource string `json:"resource"`
	File     string `json:"file"`
	counts
	CallsRefused int64   `json:"calls_refused"` // by a limit, in this run
	Seconds      float64 `json:"seconds"`       // of this run
	RejectsFile  string  `json:"rejects_file,omitempty"`
}

// report prints the result of an import that is done.
func (im *importer) report(stdout, stderr io.Writer) error {
	c := im.mark.Counts
	result := importResult{Resource: im.resource, File: im.path, counts: c, CallsRefused: im.refused.Load(), Seconds: im.took.Seconds()}
	if c.Rejected > 0 {
		result.RejectsFile = im.rejects
	}
	if im.json {
		if err := json.NewEncoder(stdout).Encode(result); err != nil {
			return err
		}
	} else {
		updated := ""
		if im.update {
			updated = fmt.Sprintf(", %d updated", c.Updated)
		}
		fmt.Fprintf(stdout, "%d %s: %d new, %d there already%s, %d rejected. %d calls in %.1f s, %d refused by a limit.\n",
			c.total(), im.resource, c.Created, c.Existing, updated, c.Rejected, im.calls.Load(), im.took.Seconds(), im.refused.Load())
	}
	if c.Rejected > 0 {
		return &exitError{exitRejected, fmt.Errorf("%d records were rejected; %s says why of each", c.Rejected, im.rejects)}
	}
	return nil
}
