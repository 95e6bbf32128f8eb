package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/importer"
	"sluice/internal/progress"
	api "sluice/pkg/client"
	"sluice/pkg/recordfile"
)

const importHelp = `Put the records of a file, or of standard input (-), into a service.

The file is NDJSON, one JSON object a line, or CSV with a header; it may be
compressed with gzip. Its fields are those of the API; created_at and updated_at,
which exports have, are ignored. CSV has a column attributes.<name> for each
attribute, or attributes with JSON. In a cell of an attribute an object or an array
is its JSON, and so is a number, true, false or null without quotes; anything else
is text; an empty cell without quotes is nothing. An apostrophe that an export adds
is removed. A CSV file that was exported comes back as it was, entities with
--create-only.

Records go in batches, or events with --one-by-one and entities with --create-only
each in a call of its own. The import runs at the service's limits and keeps to them.
A call that fails for a passing reason is repeated up to 40 times within two minutes.

An import that was stopped or killed continues when the same command is run again,
and ends with each record once. For that it keeps a journal beside the file,
FILE.sluice-import: records without an id get the same one every time. The journal
stays when all is done, so that the same command run once more imports nothing
twice; --again begins anew, with new ids. A symbolic link is imported as the file
that it leads to. Standard input has no journal.

An entity that the service has already is updated: the attributes are merged into
its own (RFC 7396: null removes one, also from a new entity), and its type is
replaced if the file has one. With --create-only it is rejected if its content
differs, and attributes that are null are kept.

A record that is rejected goes to FILE.rejects.ndjson with its line number and the
reason. The import does not begin if the reject file exists, unless it is as an
earlier import of FILE left it, and continues only with the one that it left. Ids
should be unique in a file: which of two events with one id is accepted, and in which
order two entities with one id are merged, is not determined.

` + connectionHelp + "\n\n" + exitCodesHelp

func importCommand(getenv func(string) string) *cobra.Command {
	var (
		o      importer.Options
		c      = connection{getenv: getenv}
		format string
		update bool
		rate   int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "import {entities|events} FILE",
		Short: "Put the records of a file in",
		Long:  importHelp,
		Example: `  sluice import events events.ndjson
  sluice import entities people.csv.gz
  zcat old-*.gz | sluice import events --format ndjson -
  SLUICE_URL=https://api.example.com SLUICE_API_KEY=slc_… sluice import events events.csv`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeNounAndFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, err := parseResource("import", args[0])
			if err != nil {
				return err
			}
			o.Resource, o.Path, o.Stdin, o.URL = nouns[resource].Many, args[1], cmd.InOrStdin(), c.baseURL()
			if rate < 1 && cmd.Flags().Changed("rate") {
				return usageError("--rate must be at least 1")
			}
			if err := checkImport(&o, format, update); err != nil {
				return err
			}
			o.Waiting = c.waiting
			connect := func(cfg api.Config) (*api.Client, error) {
				cfg.Rate = rate
				return c.patientClient(cfg)
			}
			r, err := importer.Run(cmd.Context(), o, connect, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return printImport(cmd.OutOrStdout(), nouns[resource], r, asJSON)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&format, "format", "", "ndjson or csv (default by the file's name)")
	cmd.Flags().BoolVar(&o.OneByOne, "one-by-one", false, "create each event in a call of its own")
	cmd.Flags().BoolVar(&o.CreateOnly, "create-only", false, "reject entities that exist with other content; each in a call of its own")
	cmd.Flags().BoolVar(&update, "update", false, "merge into entities that exist (the default)")
	cmd.Flags().IntVar(&o.Workers, "workers", 4, "concurrent calls, 1 to 64")
	cmd.Flags().IntVar(&rate, "rate", 0, "maximum calls a second (default as many as the limits allow)")
	cmd.Flags().StringVar(&o.Journal, "journal", "", "file for the journal (default FILE.sluice-import)")
	cmd.Flags().StringVar(&o.Rejects, "rejects", "", "file for rejected records (default FILE.rejects.ndjson, of - rejects.ndjson)")
	cmd.Flags().BoolVar(&o.Again, "again", false, "import a file again that has been imported")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	completeValues(cmd, "format", recordfile.NDJSON, recordfile.CSV)
	return cmd
}

// completeNounAndFile completes the arguments of import and sync: a noun, then a file.
func completeNounAndFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return resourceNames, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// checkImport returns a usage error if the arguments or flags are invalid. Otherwise it
// sets the options that follow from others.
func checkImport(o *importer.Options, format string, update bool) (err error) {
	switch {
	case o.Workers < 1 || o.Workers > 64:
		return usageError("--workers must be 1 to 64")
	case o.Resource == "entities" && o.OneByOne:
		return usageError("--one-by-one is for events; entities are with --create-only")
	case o.Resource == "events" && (update || o.CreateOnly):
		return usageError("--update and --create-only are for entities; events never change")
	case update && o.CreateOnly:
		return usageError("--update and --create-only exclude each other")
	}
	if o.Format, err = chooseFormat(format, o.Path); err != nil {
		return err
	}
	if o.Path == "-" {
		o.Rejects = cmp.Or(o.Rejects, "rejects.ndjson")
		return nil
	}
	// A file has one journal, even if it is imported through different symbolic links.
	file, err := filepath.EvalSymlinks(o.Path)
	if err != nil {
		return usageError("%w", err)
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return usageError("%s is not a regular file, so it can have no journal; import it by - from standard input", o.Path)
	}
	o.Rejects, o.Journal = cmp.Or(o.Rejects, file+".rejects.ndjson"), cmp.Or(o.Journal, file+".sluice-import")
	if sameFile(o.Path, o.Rejects) || sameFile(o.Path, o.Journal) || sameFile(o.Rejects, o.Journal) {
		return usageError("the file, its journal and the reject file must be three")
	}
	return nil
}

// sameFile reports whether two paths name the same file. The file need not exist.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// chooseFormat returns the format that flag names. If flag is empty, it returns the format
// of the file name, or NDJSON for "-".
func chooseFormat(flag, path string) (recordfile.Format, error) {
	switch format := cmp.Or(recordfile.Format(flag), recordfile.FormatOf(path)); {
	case format == recordfile.NDJSON || format == recordfile.CSV:
		return format, nil
	case flag != "":
		return "", usageError("--format must be ndjson or csv, not %q", flag)
	case path == "-":
		return recordfile.NDJSON, nil
	}
	return "", usageError("the name %q does not tell its format; say --format ndjson or csv", path)
}

// printImport prints the result of a complete import. It returns an error if records were
// rejected.
func printImport(w io.Writer, noun progress.Noun, r importer.Result, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
	} else {
		updated := ""
		if r.Resource == "entities" {
			updated = fmt.Sprintf(", %d updated", r.Updated)
		}
		fmt.Fprintf(w, "%s: %d new, %d there already%s, %d rejected. %s in %.1f s, %d refused by a limit.\n",
			noun.Count(r.Total()), r.Created, r.Existing, updated, r.Rejected, progress.Noun{One: "call", Many: "calls"}.Count(r.Calls), r.Seconds, r.CallsRefused)
	}
	if r.Rejected > 0 {
		rejected := progress.Noun{One: "record was", Many: "records were"}.Count(r.Rejected)
		return &exitError{exitRejected, fmt.Errorf("%s rejected; %s says why", rejected, r.RejectsFile)}
	}
	return nil
}
