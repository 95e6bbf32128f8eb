package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/exporter"
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

type exportOptions struct {
	exporter.Options
	connection
	format, from, to string
	json             bool

	sinceText string
	since     *record.Time // nil without --since
	deleted   bool         // include tombstones
}

const exportHelp = `Export all entities or events of a service, or those that the flags select, to a
file or to standard output (-). An export job in the service writes the file. This
command creates the job, waits for it, downloads the file and checks its size, its
checksums and its number of records. After these checks, the command creates FILE or
writes to standard output. Until then the download is in a file beside FILE, or in
the directory for temporary files.

An existing file is replaced only with --force. A file whose name ends in .gz stays
compressed with gzip. Any other file and standard output are decompressed; --unpack
overrides this. CSV has a column attributes.<name> for each attribute.
"sluice import" reads both formats.

If an export is stopped or killed, run the same command again to continue it. The job
continues in the service in the meantime, and a download continues where it stopped.
To make this possible, the command keeps a journal beside the file, FILE.sluice-export,
until the export is complete. Standard output has no journal, so an interrupt cancels
the job.

With --since, the file contains only changes since that time, as NDJSON. No export job
is created. Entities are in order of updated_at; --include-deleted adds a tombstone for
each entity that was deleted in the last 30 days. With --type, it is required, and the
file also has each changed entity of another type, as deleted with the reason filter.
Events are in order of created_at. The last printed line is synced_until and a time.
Use that time as --since in the next export. The records count towards the limits, with
--entity-id also those of other entities. "sluice sync" uses such changes to keep a copy
up to date.

The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp

func exportCommand(getenv func(string) string) *cobra.Command {
	o := exportOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "export {entities|events} -o FILE",
		Short: "Export records to a file",
		Long:  exportHelp,
		Example: `  sluice export events -o events.ndjson.gz
  sluice export entities --type person --format csv -o people.csv
  sluice export events --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z -o january.csv.gz
  sluice export events --entity-id ada -o - | wc -l
  sluice export entities --since 2026-01-02T00:00:00Z --include-deleted -o changes.ndjson`,
		Args: func(_ *cobra.Command, args []string) error {
			return checkArgs(args, 1, "export", "entities or events", "events -o events.ndjson")
		},
		ValidArgs: resourceNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireValues(cmd, "format", "type", "entity-id", "name", "from", "to", "since", "csv-formulas"); err != nil {
				return err
			}
			var err error
			if o.Order.Resource, err = parseResource("export", args[0]); err != nil {
				return err
			}
			if !cmd.Flags().Changed("unpack") {
				o.Unpack = !strings.HasSuffix(strings.ToLower(o.Path), ".gz")
			}
			return export(cmd, &o)
		},
	}
	o.addFlags(cmd)
	o.addShare(cmd)
	cmd.Flags().StringVarP(&o.Path, "output", "o", "", "file to write; - for standard output")
	cmd.Flags().StringVar(&o.format, "format", "", "ndjson or csv (default: the format of the file name; ndjson for -)")
	cmd.Flags().StringVar(&o.Order.Filters.Type, "type", "", "only entities of this type")
	cmd.Flags().StringVar(&o.Order.Filters.Name, "name", "", "only events of this name")
	cmd.Flags().StringVar(&o.Order.Filters.EntityID, "entity-id", "", "only events of this entity")
	cmd.Flags().StringVar(&o.from, "from", "", "only events at this time (RFC 3339) or later")
	cmd.Flags().StringVar(&o.to, "to", "", "only events before this time")
	cmd.Flags().StringVar(&o.sinceText, "since", "", "only changes at this time (RFC 3339) or later")
	cmd.Flags().BoolVar(&o.deleted, "include-deleted", false, "with --since, also tombstones of deleted entities")
	cmd.Flags().StringVar((*string)(&o.Order.CSVFormulas), "csv-formulas", "", "neutralize (default) or keep text that a spreadsheet would run as a formula")
	cmd.Flags().BoolVar(&o.Unpack, "unpack", false, "decompress the file (default unless its name ends in .gz)")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace FILE if it exists")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	completeValues(cmd, "format", record.NDJSON, record.CSV)
	completeValues(cmd, "csv-formulas", api.NeutralizeFormulas, api.KeepFormulas)
	return cmd
}

// check validates the options and sets those that depend on others. Errors are usage errors.
func (o *exportOptions) check() (err error) {
	if o.Path == "-" && o.json {
		return usageError("--json and -o - cannot both use standard output")
	}
	if o.Path == "" {
		return usageError("-o is required; it names the file to write, or - for standard output")
	}
	if info, err := os.Stat(o.Path); err == nil && !info.Mode().IsRegular() {
		return usageError("-o %q is not a regular file; use - for standard output", o.Path)
	}
	if _, err := os.Lstat(o.Path); err == nil && !o.Force {
		return usageError("%s exists; name another file, or replace it with --force", o.Path)
	}
	if o.Order.Format, err = exportFormat(o.format, o.Path); err != nil {
		return err
	}
	if o.Order.Filters.From, err = parseTime("--from", o.from); err != nil {
		return err
	}
	if o.Order.Filters.To, err = parseTime("--to", o.to); err != nil {
		return err
	}
	if err := o.checkSince(); err != nil {
		return err
	}
	order := o.Order
	order.ID = "valid" // a placeholder; the client chooses the real id
	if err := order.Validate(); err != nil {
		return usageError("%w", err)
	}
	return nil
}

// exportFormat takes the format from --format or, if that is empty, from the file name. Standard
// output ("-") is NDJSON by default.
func exportFormat(flag, path string) (record.Format, error) {
	switch format := cmp.Or(record.Format(flag), recordfile.FormatOf(path)); {
	case format == record.NDJSON || format == record.CSV:
		return format, nil
	case flag != "":
		return "", usageError("--format must be ndjson or csv, not %q", flag)
	case path == "-":
		return record.NDJSON, nil
	}
	return "", usageError("the file name %q does not show the format; use --format ndjson or --format csv", path)
}

// checkSince sets o.since. It returns a usage error if --since is invalid or conflicts with
// other flags.
func (o *exportOptions) checkSince() (err error) {
	if o.since, err = parseTime("--since", o.sinceText); err != nil {
		return err
	}
	switch {
	case o.since == nil && o.deleted:
		return usageError("--include-deleted needs --since")
	case o.since == nil:
		return nil
	case o.Order.Filters.Type != "" && !o.deleted:
		return usageError("--type with --since needs --include-deleted: the file then also has, as deleted, each changed entity of another type, so that a copy drops what has left the type")
	case o.Order.Filters.Name != "":
		return usageError("--name cannot be used with --since; leave out one of them")
	case o.deleted && o.Order.Resource == record.Event:
		return usageError("--include-deleted is for entities; events are not deleted")
	case o.from != "" || o.to != "":
		return usageError("--since cannot be used with --from and --to, which select events by occurred_at")
	case o.Order.Format != record.NDJSON || o.Order.CSVFormulas != "":
		return usageError("--since writes NDJSON, not CSV; leave out --format, or name a file that ends in .ndjson")
	}
	return nil
}

// parseTime returns nil for "".
func parseTime(flag, text string) (*record.Time, error) {
	if text == "" {
		return nil, nil
	}
	t, err := record.ParseTime(text)
	if err != nil {
		return nil, usageError("%s is %w", flag, err)
	}
	return &t, nil
}

// exportResult is the JSON output of "sluice export" without --since.
type exportResult struct {
	Job       string          `json:"job"`
	Resource  record.Resource `json:"resource"`
	Format    record.Format   `json:"format"`
	File      string          `json:"file"`
	Records   int64           `json:"records"`
	SizeBytes int64           `json:"size_bytes"` // compressed size
	Seconds   float64         `json:"seconds"`    // duration of this run
}

func export(cmd *cobra.Command, o *exportOptions) error {
	began := time.Now()
	if err := o.check(); err != nil {
		return err
	}
	c, err := o.patientClient(client.Config{}, true)
	if err != nil {
		return err
	}
	o.Stdout, o.Waiting = cmd.OutOrStdout(), o.waiting
	if o.since != nil {
		return exportSince(cmd, o, c)
	}
	j, err := exporter.Run(cmd.Context(), o.Options, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	if o.json {
		return printJSON(cmd.OutOrStdout(), exportResult{j.ID, j.Resource, j.Format, o.Path, j.RecordsWritten, *j.SizeBytes, seconds})
	}
	out, file := cmd.OutOrStdout(), o.Path
	if o.Path == "-" {
		out, file = cmd.ErrOrStderr(), "standard output"
	}
	fmt.Fprintf(out, "%s in %s, checked: %d bytes of gzip in %.1f s.\n", noun(j.Resource).Count(j.RecordsWritten), file, *j.SizeBytes, seconds)
	return nil
}

// changesResult is the JSON output of "sluice export --since".
type changesResult struct {
	Resource    record.Resource `json:"resource"`
	File        string          `json:"file"`
	Records     int64           `json:"records"`
	SyncedUntil record.Time     `json:"synced_until"`
}

func exportSince(cmd *cobra.Command, o *exportOptions, c *client.Client) error {
	done, err := exporter.RunSince(cmd.Context(), o.Options, *o.since, o.deleted, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(cmd.OutOrStdout(), changesResult{o.Order.Resource, o.Path, done.Records, done.SyncedUntil})
	}
	out, file := cmd.OutOrStdout(), o.Path
	if o.Path == "-" {
		out, file = cmd.ErrOrStderr(), "standard output"
	}
	fmt.Fprintf(out, "%s in %s.\nsynced_until %s\n", progress.Noun{One: "change", Many: "changes"}.Count(done.Records), file, done.SyncedUntil)
	return nil
}
