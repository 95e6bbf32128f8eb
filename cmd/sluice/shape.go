package main

import (
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/importer"
	"sluice/pkg/importfile"
)

const shapeHelp = `Other files: --map order_id=id,date=occurred_at renames columns of a CSV file, or members
of JSON objects, to fields. With --map, all other columns become attributes; --map note=
leaves one out. A field that --map makes of a number is its text. --delimiter ';' or tab
separates the cells. --encoding names an encoding of the WHATWG standard, such as
windows-1252 or utf-16. --name and --type are for records that have none.

--time-format is how occurred_at is written, in the syntax of strftime: %d day, %m month,
%b name of the month (Jan), %Y year, %y its last two digits, %H or %I hour, %p AM or PM,
%M minute, %S second with any fraction, %z offset from UTC, such as %d.%m.%Y or
"%m/%d/%Y %I:%M %p". Numbers may lack a leading zero. --time-zone is the zone of the
times, such as Europe/Berlin (default UTC). A time that occurs twice there, when clocks
are set back, is the first of both, and one that clocks skip is rejected.`

// shapeFlags are the flags for importing a file that does not look like an export.
type shapeFlags struct {
	importfile.Description
	renames    []string
	timeFormat string
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.renames, "map", nil, "columns or members of the file and the fields that they are, such as order_id=id,date=occurred_at")
	cmd.Flags().StringVar(&f.Delimiter, "delimiter", "", "character between the cells of a CSV file, or tab (default: a comma; a tab if the file name ends in .tsv)")
	cmd.Flags().StringVar(&f.Encoding, "encoding", "", "encoding of the file, such as windows-1252 (default: UTF-8)")
	cmd.Flags().StringVar(&f.timeFormat, "time-format", "", "format of occurred_at for strftime, such as %d.%m.%Y (default: RFC 3339)")
	cmd.Flags().StringVar(&f.TimeZone, "time-zone", "", "zone of occurred_at with --time-format, such as Europe/Berlin (default: UTC)")
	cmd.Flags().StringVar(&f.Name, "name", "", "name of events that have none in the file")
	cmd.Flags().StringVar(&f.Type, "type", "", "type of entities that have none in the file")
}

// description describes the file, but for the resource and the format.
func (f *shapeFlags) description(cmd *cobra.Command, file string) (importfile.Description, error) {
	d := f.Description
	if err := requireValues(cmd, "map", "delimiter", "encoding", "time-format", "time-zone", "name", "type"); err != nil {
		return d, err
	}
	for _, rename := range f.renames {
		i := strings.LastIndex(rename, "=")
		if i < 1 {
			return d, usageError("--map needs COLUMN=FIELD, such as order_id=id, not %q", rename)
		}
		c := importfile.Column{Source: rename[:i], Field: rename[i+1:]}
		c.Out = c.Field == ""
		d.Columns = append(d.Columns, c)
	}
	if f.timeFormat != "" {
		d.TimeFormats = []string{f.timeFormat}
	}
	switch d.Delimiter {
	case "":
		if strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(file), ".gz"), ".zip"), ".tsv") {
			d.Delimiter = "\t"
		}
	case ",":
		d.Delimiter = ""
	case "tab", `\t`:
		d.Delimiter = "\t"
	}
	var err error
	if d.Encoding != "" {
		if d.Encoding, err = importer.Encoding(d.Encoding); err != nil {
			return d, usageError("%w", err)
		}
	}
	return d, nil
}
