package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/importer"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

const shapeHelp = `Other files: --map order_id=id,date=occurred_at,Betrag=attributes.amount renames columns of
a CSV file, or members of JSON objects. With --map or --types, all other columns become
attributes; --map note= leaves one out. --map properties.time=occurred_at takes a member
out of the object in another one. --name and --type are for records that have none.

--types zip=text,amount=number sets the types of columns that become attributes. Without
it, a CSV column has the type of the index on the attribute, if there is one. Otherwise,
it has the type that all its cells have: number (as in JSON, so not 02134), boolean (true
or false) or json (objects and arrays), without quotes, besides null and empty cells. If
they differ, all are text, as they are, null included. The import says what it has chosen.
json reads each cell by itself, as in an export. In JSON files, values keep their types
unless --types names the member. A value that does not fit is rejected.

--delimiter ';' or tab separates the cells of a CSV file; without it, the first lines
decide, or a line sep=; at the beginning. --quote is the character around cells, or none.
--skip-lines is how many lines come before the header, and with --no-header the columns
are called 1, 2 and so on, as is a column without a name, which is otherwise left out.
--encoding names an encoding of the WHATWG standard, such as windows-1252.

--save-as FILE.json saves all this, with the types; --as FILE.json uses it, as the
dashboard does.

--time-format is how occurred_at is written, in the syntax of strftime: %d day, %m month,
%b name of the month (Jan), %Y year, %y its last two digits, %j day of the year, %H or %I
hour, %p AM or PM, %M minute, %S second with any fraction, %z offset from UTC, %a name of
the day, such as %d.%m.%Y or "%m/%d/%Y %I:%M %p". Numbers may lack a leading zero, except
next to another number. An offset after the time of day may also be text, as in %H:%M+01.
unix and unix_ms are seconds and milliseconds since 1970, and rfc3339 is the default. Of
several --time-format, the first one that fits counts.

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
	as      string
	renames []string
	types   []string
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.renames, "map", nil, "columns or members of the file and the fields that they are, such as order_id=id,date=occurred_at")
	cmd.Flags().StringVar(&f.as, "as", "", "file with a description, from --save-as or the dashboard, in place of the other options for other files")
	cmd.Flags().StringSliceVar(&f.types, "types", nil, "types of columns or members that become attributes: text, number, boolean, json or auto, such as zip=text,amount=number")
	cmd.Flags().StringVar(&f.Quote, "quote", "", "character around the cells of a CSV file, or none (default: \")")
	cmd.Flags().IntVar(&f.SkipLines, "skip-lines", 0, "lines before the header of a CSV file, or before the first record of an NDJSON file")
	cmd.Flags().BoolVar(&f.NoHeader, "no-header", false, "the first row of the CSV file is a record; columns are called 1, 2 and so on")
	cmd.Flags().StringVar(&f.Delimiter, "delimiter", "", "character between the cells of a CSV file, or tab (default: what separates most cells; a tab if the file name ends in .tsv)")
	cmd.Flags().StringVar(&f.Encoding, "encoding", "", "encoding of the file, such as windows-1252 (default: UTF-8)")
	cmd.Flags().StringArrayVar(&f.TimeFormats, "time-format", nil, "format of occurred_at: unix, unix_ms, rfc3339, or for strftime, such as %d.%m.%Y; several are tried in order (default rfc3339)")
	cmd.Flags().StringVar(&f.TimeZone, "time-zone", "", "zone of times without an offset, such as Europe/Berlin (default: UTC)")
	cmd.Flags().StringVar(&f.Time, "time", "", "now: events without a time occur when they are imported (default: they are rejected)")
	cmd.Flags().BoolVar(&f.EscapeIDs, "escape-ids", false, "in ids, replace characters that ids cannot have, and colons: a/b by a:2Fb")
	cmd.Flags().StringVar(&f.Name, "name", "", "name of events that have none in the file")
	cmd.Flags().StringVar(&f.Type, "type", "", "type of entities that have none in the file")
}

// description describes the file.
func (f *shapeFlags) description(cmd *cobra.Command, resource record.Resource) (importfile.Description, error) {
	d := f.Description
	if err := requireValues(cmd, "as", "map", "types", "quote", "delimiter", "encoding", "time-format", "time-zone", "time", "name", "type"); err != nil {
		return d, err
	}
	if f.as != "" {
		return f.load(cmd, resource)
	}
	d.Resource = resource
	for _, rename := range f.renames {
		column, field, ok := cutLast(rename)
		if !ok {
			return d, usageError("--map needs COLUMN=FIELD, such as order_id=id, not %q", rename)
		}
		d.Columns = append(d.Columns, importfile.Column{Source: column, Field: field, Out: field == ""})
	}
	for _, text := range f.types {
		column, name, ok := cutLast(text)
		if !ok {
			return d, usageError("--types needs COLUMN=TYPE, such as zip=text, not %q", text)
		}
		at := slices.IndexFunc(d.Columns, func(c importfile.Column) bool { return c.Source == column })
		if at < 0 {
			at = len(d.Columns)
			d.Columns = append(d.Columns, importfile.Column{Source: column})
		}
		d.Columns[at].Type = importfile.ValueType(name)
	}
	if d.Delimiter == "tab" || d.Delimiter == `\t` {
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

// load reads the description of --as.
func (f *shapeFlags) load(cmd *cobra.Command, resource record.Resource) (importfile.Description, error) {
	for _, name := range []string{"format", "map", "types", "quote", "skip-lines", "no-header", "delimiter", "encoding", "time-format", "time-zone", "time", "escape-ids", "name", "type"} {
		if cmd.Flags().Changed(name) {
			return f.Description, usageError("--as and --%s cannot be used together; change the file %s", name, f.as)
		}
	}
	d, err := importer.Load(f.as)
	switch {
	case err != nil:
		return d, usageError("%w", err)
	case d.Resource != resource:
		return d, usageError("%s describes %s, not %s", f.as, d.Resource.Plural(), resource.Plural())
	}
	return d, nil
}

// cutLast cuts text at the last =, which must not be the first character.
func cutLast(text string) (before, after string, ok bool) {
	i := strings.LastIndex(text, "=")
	if i < 1 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}
