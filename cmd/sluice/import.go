package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/cmd/sluice/internal/importer"
	"sluice/cmd/sluice/internal/outage"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

const importHelp = `Import the records of a file, or of standard input (-), into a service.

The file is NDJSON (one JSON object per line), CSV with a header, or JSON (an array of
objects). It may be compressed with gzip, or be the only file in a zip archive. Its
fields are those of the API. created_at and updated_at, which exports contain, are
ignored. --dry-run checks every record and sends none. It prints what becomes of each
column, what the import would reject and the first record that it would send; an id of
zeros stands for a new one. For a CSV file of entities, it asks the service which
attributes are indexed.

CSV has a column attributes.<name> for each attribute, or one column attributes with
JSON. An empty cell means that the record lacks the field or, without quotes, the
attribute. In an export, unquoted numbers, true, false, null, objects and arrays are
JSON, and all other cells are text. In other files, a column has one type: see --types.
The import removes the apostrophes that an export adds. To import exported entities
without changes, use --create-only.

` + shapeHelp + `

Records are sent in batches. --one-by-one sends each event in a separate call, and
--create-only each entity. The import makes as many calls as --share of the limits
allows. A call with a temporary error is retried up to 40 times within two minutes.

If an import is stopped or killed, run the same command again to continue it. Each
record is stored once. To make this possible, the import keeps a journal beside the
file, FILE.sluice-import. With the journal, a record without an id gets the same id in
every run: it depends on the line and on the content that the file had when the import
began. The journal stays after the import is complete. After that, the same command
imports only what was appended to the file, if anything. --again starts over, as removing
the journal does: records without an id are then stored a second time only if the file
has changed. A symbolic link is treated as the file that it points to. Standard input has
no journal; it is read to its end first.

If an entity already exists, the import merges the attributes into it (RFC 7396: null
removes an attribute, even from a new entity) and replaces its type if the file has
one. With --create-only, an existing entity with other content is rejected, and null
attributes are kept.

With --mirror, the file is the truth for its entities: each one takes the place of what is
stored, and a tombstone, such as {"id":"ada","deleted":true}, deletes it. So an export of
changes with --include-deleted makes another workspace equal. If that export had a filter,
--type names it, and entities that have left the filter are deleted, whoever stored them.
--whole also deletes entities that the file lacks and that were there before the import,
with --type only those of that type. It deletes only if the file has entities and no row
was rejected, and asks first (--yes does not ask).

Rejected records are written to FILE.rejects.ndjson with their line numbers (in a JSON
file, their positions in the array), the reasons and their text (in base64 if it is not
UTF-8). An import starts only if the reject file does not exist or is the unchanged reject
file of an earlier import of FILE. It continues only if its own reject file is unchanged.
Ids should be unique in a file. Otherwise it is undefined which of two events with the same
id is accepted, and in which order two entities with the same id are merged.

` + connectionHelp + "\n\n" + exitCodesHelp

type importFlags struct {
	importer.Options
	connection
	shape  shapeFlags
	format string
	update bool
	mirror bool
	yes    bool
	rate   int
	dryRun bool
	json   bool
}

func importCommand(getenv func(string) string) *cobra.Command {
	f := importFlags{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "import {entities|events} FILE",
		Short: "Import the records of a file",
		Long:  importHelp,
		Example: `  sluice import events events.ndjson
  sluice import entities people.csv.gz
  sluice import events orders.csv --dry-run --delimiter ';' --name order_placed \
    --map order_id=id,customer=entity_id,date=occurred_at --time-format %d.%m.%Y
  zcat old-*.gz | sluice import events --format ndjson -
  SLUICE_URL=https://api.example.com SLUICE_API_KEY=slc_… sluice import events events.csv`,
		Args:              resourceAndFile("import", "orders.csv"),
		ValidArgsFunction: completeNounAndFile,
		RunE:              f.run,
	}
	f.addFlags(cmd)
	f.addShare(cmd)
	f.shape.add(cmd)
	cmd.Flags().StringVar(&f.format, "format", "", "ndjson, csv or json (default: the format of the file name)")
	cmd.Flags().StringVar(&f.SaveAs, "save-as", "", "file for a description of the file, for --as and the dashboard")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "check every record, print what would be created and rejected, and do nothing")
	cmd.Flags().BoolVar(&f.OneByOne, "one-by-one", false, "create each event in a separate call")
	cmd.Flags().BoolVar(&f.CreateOnly, "create-only", false, "create each entity in a separate call, and reject it if it exists with other content")
	cmd.Flags().BoolVar(&f.mirror, "mirror", false, "replace entities instead of merging into them, and delete those with a tombstone")
	cmd.Flags().BoolVar(&f.Whole, "whole", false, "with --mirror: also delete the entities that the file lacks; with --type, only those of that type")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before --whole deletes")
	cmd.Flags().BoolVar(&f.update, "update", false, "merge into existing entities (the default)")
	cmd.Flags().IntVar(&f.Workers, "workers", 4, "concurrent calls, 1 to 64")
	cmd.Flags().IntVar(&f.rate, "rate", 0, "maximum calls per second (default: as many as the limits allow)")
	cmd.Flags().StringVar(&f.Journal, "journal", "", "file for the journal (default FILE.sluice-import)")
	cmd.Flags().StringVar(&f.Rejects, "rejects", "", "file for rejected records (default FILE.rejects.ndjson; rejects.ndjson for -)")
	cmd.Flags().BoolVar(&f.Again, "again", false, "import the file even if it was already imported")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the result as JSON, even if the import is interrupted")
	completeValues(cmd, "format", importFormats...)
	return cmd
}

func (f *importFlags) run(cmd *cobra.Command, args []string) (err error) {
	resource, err := parseResource("import", args[0])
	if err != nil {
		return err
	}
	f.Path = args[1]
	if f.rate < 1 && cmd.Flags().Changed("rate") {
		return usageError("--rate must be at least 1")
	}
	if f.Description, err = f.shape.description(cmd, resource); err != nil {
		return err
	}
	f.Mirror = f.Mirror || f.mirror
	if err := checkImport(&f.Options, f.format, f.update); err != nil {
		return err
	}
	if f.Path == "-" {
		if f.File, err = importer.Spool(cmd.InOrStdin()); err != nil {
			return fmt.Errorf("copy standard input: %w", err)
		}
		defer os.Remove(f.File) //nolint:errcheck // it is in the directory for temporary files
	}
	if f.shape.as == "" {
		if f.Description, err = importer.Complete(cmp.Or(f.File, f.Path), f.Description); err != nil {
			return err
		}
	}
	if f.dryRun {
		return f.try(cmd)
	}
	f.Waiting = f.waiting
	f.Confirm = func(others map[string]int) error { return f.confirm(cmd, others) }
	connect := func(cfg client.Config) (*client.Client, error) {
		cfg.Rate = f.rate
		return f.patientClient(cfg, true)
	}
	r, err := importer.Run(cmd.Context(), f.Options, connect, cmd.ErrOrStderr())
	if begun := r.Resource != ""; begun && f.json {
		err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(r))
	}
	if err != nil {
		return err
	}
	return printImport(cmd.OutOrStdout(), r, f.json)
}

// confirm asks whether to delete entities, whose number it gets by type.
func (f *importFlags) confirm(cmd *cobra.Command, others map[string]int) error {
	total, types := 0, []string{}
	for _, typ := range slices.Sorted(maps.Keys(others)) {
		total += others[typ]
		types = append(types, fmt.Sprintf("%d of the type %s", others[typ], typ))
	}
	found := fmt.Sprintf("%s that %s lacks: %s.", noun(record.Entity).Count(int64(total)), f.Path, strings.Join(types, ", "))
	fmt.Fprintln(cmd.ErrOrStderr(), found)
	if f.yes {
		return nil
	}
	if in, ok := cmd.InOrStdin().(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return errors.New("none of them is deleted without --yes")
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Delete them? Type yes: ")
	var reply string
	if _, err := fmt.Fscanln(cmd.InOrStdin(), &reply); err != nil || reply != "yes" {
		return errors.New("none of them is deleted")
	}
	return nil
}

// completeNounAndFile completes the arguments of import and sync: entities or events, and a file.
func completeNounAndFile(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return resourceNames, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// checkImport validates the options and sets those that depend on others. Errors are usage errors.
func checkImport(o *importer.Options, format string, update bool) (err error) {
	switch {
	case o.Workers < 1 || o.Workers > 64:
		return usageError("--workers must be 1 to 64")
	case o.Resource == record.Entity && o.OneByOne:
		return usageError("--one-by-one is for events; use --create-only for entities")
	case o.Resource == record.Event && (update || o.CreateOnly):
		return usageError("--update and --create-only are for entities; events never change")
	case o.Mirror && o.Resource == record.Event:
		return usageError("--mirror is for entities; events never change")
	case o.Mirror && (update || o.CreateOnly):
		return usageError("--mirror cannot be used with --update or --create-only")
	case o.Whole && !o.Mirror:
		return usageError("--whole needs --mirror")
	case o.Whole && o.Path == "-":
		return usageError("--whole needs a file, which it can read twice")
	case update && o.CreateOnly:
		return usageError("--update and --create-only cannot be used together")
	}
	if o.Format == "" {
		if o.Format, err = importFormat(format, o.Path); err != nil {
			return err
		}
	}
	if err := o.Check(); err != nil {
		return usageError("%w", err)
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
		return usageError("%s is not a regular file, so it cannot have a journal; import it from standard input, with -", o.Path)
	}
	o.Rejects, o.Journal = cmp.Or(o.Rejects, file+".rejects.ndjson"), cmp.Or(o.Journal, file+".sluice-import")
	if sameFile(o.Path, o.Rejects) || sameFile(o.Path, o.Journal) || sameFile(o.Rejects, o.Journal) {
		return usageError("the file, its journal and its reject file must be three different files")
	}
	return nil
}

// sameFile also works for files that do not exist.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// importFormat takes the format from --format or, if that is empty, from the file name. Standard
// input ("-") is NDJSON by default.
func importFormat(flag, path string) (format record.Format, err error) {
	name := path
	switch {
	case flag == "" && path == "-":
		return record.NDJSON, nil
	case flag == "" && strings.HasSuffix(strings.ToLower(path), ".zip"):
		if name, err = importer.NameIn(path); err != nil {
			return "", usageError("%w", err)
		}
	}
	switch format := cmp.Or(record.Format(flag), importfile.FormatOf(name)); {
	case slices.Contains(importFormats, format):
		return format, nil
	case flag != "":
		return "", usageError("--format must be ndjson, csv or json, not %q", flag)
	}
	return "", usageError("the file name %q does not show the format; use --format ndjson, csv or json", name)
}

var importFormats = []record.Format{record.NDJSON, record.CSV, record.JSON}

// try runs "sluice import --dry-run". It waits for the service only briefly.
func (f *importFlags) try(cmd *cobra.Command) error {
	c, err := f.connect(client.Config{MaxTries: 1}, outage.New(io.Discard, f.baseURL(), true))
	if err != nil {
		return err
	}
	r, err := importer.Try(cmd.Context(), f.Options, c)
	switch {
	case err != nil && r.Valid+r.Rejected == 0:
		return err
	case f.json:
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), r))
	default:
		r.Print(cmd.OutOrStdout(), noun(r.Description.Resource).Count)
	}
	if err == nil && r.Rejected > 0 {
		err = &exitError{exitRejected, fmt.Errorf("%s would be rejected", progress.Noun{One: "record", Many: "records"}.Count(r.Rejected))}
	}
	return err
}

// printImport returns an error if records were rejected. If asJSON is true, it prints nothing,
// because the caller has printed the result.
func printImport(w io.Writer, r importer.Result, asJSON bool) error {
	if !asJSON {
		updated := ""
		if r.Resource == record.Entity {
			updated = fmt.Sprintf(", %d updated", r.Updated)
		}
		if r.Deleted > 0 {
			updated += fmt.Sprintf(", %d deleted", r.Deleted)
		}
		fmt.Fprintf(w, "%s: %d new, %d there already%s, %d rejected. %s in %.1f s, %d refused by a limit.\n",
			noun(r.Resource).Count(r.Total()), r.Created, r.Existing, updated, r.Rejected, progress.Noun{One: "call", Many: "calls"}.Count(r.Calls), r.Seconds, r.CallsRefused)
		if r.Removed > 0 {
			fmt.Fprintf(w, "%s that the file lacks deleted.\n", noun(r.Resource).Count(r.Removed))
		}
	}
	if r.Rejected > 0 {
		rejected := progress.Noun{One: "record was", Many: "records were"}.Count(r.Rejected)
		return &exitError{exitRejected, fmt.Errorf("%s rejected; %s says why", rejected, r.RejectsFile)}
	}
	return nil
}
