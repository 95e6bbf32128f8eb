// Package recordfile writes files of records, such as export files, and says what the cells of
// a CSV file mean. A record is the JSON object of an entity or an event. Its members are not
// interpreted. Package importfile reads such files.
//
// An NDJSON file has one record per line.
//
// # CSV
//
// A CSV file (RFC 4180, UTF-8) begins with a header: the names of all members except
// attributes, and "attributes.NAME" for each attribute.
//
// The cell of a member is text; if it is empty, the member is missing or null. The cell of an
// attribute is one of these:
//
//   - an empty cell without quotes, for a missing attribute;
//   - an empty cell with quotes, for the empty string;
//   - the JSON of an object or an array;
//   - the JSON of a number, true, false or null, without quotes;
//   - any other text, or any other cell with quotes, for a string.
//
// A writer puts an apostrophe, which a reader removes, before a string that is the JSON of an
// object or an array, and before text that a spreadsheet would evaluate as a formula. A formula
// begins with one of = + - @ or their full-width forms, either at the beginning of a cell that
// is not a number, or after a semicolon, a tab or a line break, where spreadsheets may begin a
// new cell. A cell that begins with a tab, a line break or NUL also gets an apostrophe. Any
// such text that already begins with apostrophes gets one more. A writer with keepFormulas
// changes formulas and such cells only if they already begin with an apostrophe. Source:
// OWASP, "CSV Injection".
//
// A reader therefore returns the records that were written, except that attributes are in the
// order of the columns, and escapes in strings (such as \u0041) survive only within objects
// and arrays.
package recordfile

import (
	"path/filepath"
	"strings"

	"sluice/pkg/record"
)

// FormatOf returns the format for a file's extension, ignoring .gz, or "" for an unknown extension.
func FormatOf(name string) record.Format {
	switch filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz")) {
	case ".ndjson", ".jsonl":
		return record.NDJSON
	case ".csv":
		return record.CSV
	case ".json":
		return record.JSON
	}
	return ""
}
