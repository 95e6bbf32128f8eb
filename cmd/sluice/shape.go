package main

import (
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/importer"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
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
	importer.Shape
	renames []string
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.renames, "map", nil, "columns or members of the file and the fields that they are, such as order_id=id,date=occurred_at")
	cmd.Flags().StringVar(&f.Delimiter, "delimiter", "", "character between the cells of a CSV file, or tab (default: a comma; a tab if the file name ends in .tsv)")
	cmd.Flags().StringVar(&f.Encoding, "encoding", "", "encoding of the file, such as windows-1252 (default: UTF-8)")
	cmd.Flags().StringVar(&f.TimeFormat, "time-format", "", "format of occurred_at for strftime, such as %d.%m.%Y (default: RFC 3339)")
	cmd.Flags().StringVar(&f.TimeZone, "time-zone", "", "zone of occurred_at with --time-format, such as Europe/Berlin (default: UTC)")
	cmd.Flags().StringVar(&f.Name, "name", "", "name of events that have none in the file")
	cmd.Flags().StringVar(&f.Type, "type", "", "type of entities that have none in the file")
}

func (f *shapeFlags) shape(cmd *cobra.Command, file string) (importer.Shape, error) {
	s := f.Shape
	if err := requireValues(cmd, "map", "delimiter", "encoding", "time-format", "time-zone", "name", "type"); err != nil {
		return s, err
	}
	for _, rename := range f.renames {
		i := strings.LastIndex(rename, "=")
		if i < 1 {
			return s, usageError("--map needs COLUMN=FIELD, such as order_id=id, not %q", rename)
		}
		if s.Map == nil {
			s.Map = make(map[string]string)
		}
		column := rename[:i]
		if _, twice := s.Map[column]; twice {
			return s, usageError("--map has the column %q twice", column)
		}
		s.Map[column] = rename[i+1:]
	}
	switch s.Delimiter {
	case "":
		if isTSV(file) {
			s.Delimiter = "\t"
		}
	case ",":
		s.Delimiter = ""
	case "tab", `\t`:
		s.Delimiter = "\t"
	}
	if s.Encoding != "" {
		var err error
		if s.Encoding, err = importer.Encoding(s.Encoding); err != nil {
			return s, usageError("%w", err)
		}
	}
	if len([]rune(s.Delimiter)) > 1 || strings.ContainsAny(s.Delimiter, "\"\r\n") {
		return s, usageError("--delimiter must be one character, or tab, and no quote, not %q", f.Delimiter)
	}
	return s, nil
}

// formatOf returns "" if the name does not show the format.
func formatOf(name string) record.Format {
	if isTSV(name) {
		return record.CSV
	}
	return recordfile.FormatOf(name)
}

func isTSV(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zip"), ".tsv")
}
