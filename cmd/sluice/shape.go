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
%b name of the month (Jan), %Y year, %y its last two digits, %j day of the year, %H or %I
hour, %p AM or PM, %M minute, %S second with any fraction, %z offset from UTC, %a name of
the day, such as %d.%m.%Y or "%m/%d/%Y %I:%M %p". Numbers may lack a leading zero, except
next to another number. An offset after the time of day may also be text, as in %H:%M+01.
unix and unix_ms are seconds and milliseconds since 1970, and rfc3339 is the default. If
--time-format is there several times, the first one that fits counts.

--time-zone is the zone of times without an offset, such as Europe/Berlin (default UTC). A
time that occurs twice there, when clocks are set back, is the first of both, and one that
clocks skip is rejected. An event without a time is rejected, unless --time now makes it
occur when it is imported.

Ids have 1 to 128 of the characters A-Z a-z 0-9 . _ : - and a number, such as 17, becomes
a text. --escape-ids replaces each byte of any other character, and each colon, by a colon
and two hexadecimal digits: a/b becomes a:2Fb. So each id can be turned back.`

// shapeFlags are the flags for importing a file that does not look like an export.
type shapeFlags struct {
	importfile.Description
	renames []string
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.renames, "map", nil, "columns or members of the file and the fields that they are, such as order_id=id,date=occurred_at")
	cmd.Flags().StringVar(&f.Delimiter, "delimiter", "", "character between the cells of a CSV file, or tab (default: a comma; a tab if the file name ends in .tsv)")
	cmd.Flags().StringVar(&f.Encoding, "encoding", "", "encoding of the file, such as windows-1252 (default: UTF-8)")
	cmd.Flags().StringArrayVar(&f.TimeFormats, "time-format", nil, "format of occurred_at: unix, unix_ms, rfc3339, or for strftime, such as %d.%m.%Y; several are tried in order (default rfc3339)")
	cmd.Flags().StringVar(&f.TimeZone, "time-zone", "", "zone of times without an offset, such as Europe/Berlin (default: UTC)")
	cmd.Flags().StringVar(&f.Time, "time", "", "now: events without a time occur when they are imported (default: they are rejected)")
	cmd.Flags().BoolVar(&f.EscapeIDs, "escape-ids", false, "in ids, replace characters that ids cannot have, and colons: a/b by a:2Fb")
	cmd.Flags().StringVar(&f.Name, "name", "", "name of events that have none in the file")
	cmd.Flags().StringVar(&f.Type, "type", "", "type of entities that have none in the file")
}

// description describes the file, but for the resource and the format.
func (f *shapeFlags) description(cmd *cobra.Command, file string) (importfile.Description, error) {
	d := f.Description
	if err := requireValues(cmd, "map", "delimiter", "encoding", "time-format", "time-zone", "time", "name", "type"); err != nil {
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
