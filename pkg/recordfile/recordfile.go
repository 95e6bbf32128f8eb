// Package recordfile reads and writes files of records. Export jobs write such files, and
// "sluice import" reads them. A record is the JSON object of an entity or an event. The
// package maps the members of the object to lines or cells and does not interpret them.
//
// An NDJSON file has one line for each record. The line is the JSON object of the record. A
// JSON file, which is only read, is an array of such objects.
//
// # CSV
//
// A CSV file (RFC 4180, UTF-8) begins with a header. The header has the names of all
// members except attributes. For each attribute, it has a name that consists of
// "attributes." and the name of the attribute. A reader also accepts a column
// "attributes" with all attributes in JSON.
//
// The cell of a member other than attributes is text. If it is empty, the member is
// missing or null. The cell of an attribute is one of these:
//
//   - an empty cell without quotes, for a missing attribute;
//   - an empty cell with quotes, for the empty string;
//   - the JSON of an object or an array;
//   - the JSON of a number, true, false or null, without quotes;
//   - any other text, or any other cell with quotes, for a string.
//
// A writer puts an apostrophe before two kinds of text, and a reader removes it. The
// first kind is a string that is the JSON of an object or an array. The second kind is
// text that a spreadsheet would run as a formula. Text of the second kind begins with one
// of = + - @ or their full-width forms, and is not a number. It can be at the beginning
// of a cell, or after a semicolon, a tab or a line break in the cell, because
// spreadsheets may separate cells there. A cell that begins with a tab, a line break or
// NUL gets an apostrophe too. If any of these texts already begins with apostrophes, it
// gets one more. A writer with keepFormulas adds an apostrophe to formulas and to such cells
// only if they already begin with one. Source: OWASP, "CSV Injection".
//
// A reader therefore returns the records that were written, with two exceptions. The
// attributes of a record are in the order of the columns, and escapes in strings (such as
// \u0041) are kept only within objects and arrays.
package recordfile

import (
	"path/filepath"
	"strings"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	NDJSON Format = "ndjson"
	CSV    Format = "csv"
	JSON   Format = "json" // only for a Reader
)

// FormatOf derives the format of a file from the extension of its name. It ignores a .gz
// after this extension, and returns "" if the extension is unknown.
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
