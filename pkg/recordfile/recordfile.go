// Package recordfile reads and writes files of records, which export jobs write
// and "sluice import" reads. A record is the JSON object of an entity or an
// event; the package maps the members of the object to lines or cells and knows
// nothing else about them.
//
// An NDJSON file has one line for each record, the JSON object itself.
//
// # CSV
//
// A CSV file (RFC 4180, UTF-8) begins with a header: the names of the members
// other than attributes, then "attributes." and the name for each attribute. A
// reader also accepts a column "attributes" with the JSON of all attributes.
//
// Members other than attributes are texts; an empty cell is a missing member or
// null. In the cell of an attribute
//
//   - nothing at all is a missing attribute, and a quoted empty cell is "";
//   - an object or an array is its JSON;
//   - a number, true, false or null is its JSON, without quotes;
//   - everything else, and every other cell with quotes, is the text of a string.
//
// Two kinds of text are written with an apostrophe in front, which a reader
// removes: text that is the JSON of an object or an array, and text that a
// spreadsheet would run as a formula. The second kind is text that begins with
// one of = + - @, or their full-width forms, and is not a number; the beginning
// is that of the cell or of what follows a semicolon, a tab or a line break in
// it, because spreadsheets may separate cells there. A cell that begins with a
// tab, a line break or NUL gets the apostrophe as well. Source: OWASP, "CSV
// Injection". Text that already has apostrophes there gets one more.
//
// So a reader returns what a writer was given, except that the attributes of a
// record are in the order of the columns and that escapes in strings (\u0041)
// are not kept outside of objects and arrays.
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
)

// FormatOf returns the format that a file's name tells, which may end in .gz,
// or "" if the name does not tell it.
func FormatOf(name string) Format {
	switch filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz")) {
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".csv":
		return CSV
	}
	return ""
}
