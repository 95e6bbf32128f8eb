// Package recordfile reads and writes files of records: those of export jobs, and those that
// "sluice import" reads. A record is the JSON object of an entity or an event, whose members
// are mapped to lines or cells without being interpreted.
//
// An NDJSON file has the JSON object of one record per line. A JSON file, which is only read,
// is an array of such objects.
//
// # CSV
//
// A CSV file (RFC 4180, UTF-8) begins with a header: the names of all members except
// attributes, and for each attribute "attributes." and its name. A reader also accepts a
// column "attributes" with all attributes in JSON.
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
// object or an array, and before text that a spreadsheet would run as a formula. That is text
// that begins with one of = + - @ or their full-width forms and is not a number, at the
// beginning of a cell or after a semicolon, a tab or a line break in it, where spreadsheets
// may begin a new cell. A cell that begins with a tab, a line break or NUL gets an apostrophe
// too, and any such text that already begins with apostrophes gets one more. A writer with
// keepFormulas adds one to formulas and to such cells only if they already begin with one.
// Source: OWASP, "CSV Injection".
//
// A reader therefore returns the records that were written, except that attributes are in the
// order of the columns, and escapes in strings (such as \u0041) survive only within objects
// and arrays.
package recordfile

import (
	"path/filepath"
	"strings"
)

type Format string

// The formats.
const (
	NDJSON Format = "ndjson"
	CSV    Format = "csv"
	JSON   Format = "json" // only for a Reader
)

// FormatOf returns the format that a file's extension stands for, ignoring .gz, or "".
func FormatOf(name string) Format {
	switch filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz")) {
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".csv":
		return CSV
	case ".json":
		return JSON
	}
	return ""
}
