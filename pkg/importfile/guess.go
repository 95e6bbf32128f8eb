package importfile

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// GuessBytes is how many bytes of a file Guess needs at most.
const GuessBytes = 64 << 10

// Guessed is what the beginning of a file shows.
type Guessed struct {
	Description Description `json:"description"`
	Columns     []Sample    `json:"columns"`
}

// Sample is a column of the file with its first values.
type Sample struct {
	Source string   `json:"source"`
	Field  string   `json:"field"`  // that it would become; empty if it would be left out
	Values []string `json:"values"` // of up to maxSampled rows; "" for none
}

const (
	maxSampled = 5
	sampleRows = 100 // how many rows are read to find the members of JSON objects
)

// Guess describes a file by its name and by up to GuessBytes of its beginning, which may be
// compressed with gzip, but must not be a zip archive. Everything is a suggestion, to be corrected
// by the user. The columns are those of an import of the resource; an empty resource is guessed,
// too.
func Guess(beginning []byte, name string, resource record.Resource, o Options) (Guessed, error) {
	d, err := Complete(beginning, name, Description{Resource: resource}, o)
	if err != nil {
		return Guessed{}, err
	}
	return Preview(beginning, d, o)
}

// Complete sets the format, the encoding UTF-16, the delimiter and NoQuote of a description that
// lacks them, as the beginning of the file suggests.
func Complete(beginning []byte, name string, d Description, o Options) (Description, error) {
	text, err := readable(beginning, &d, o)
	if err != nil {
		return d, err
	}
	d.Format = cmp.Or(d.Format, FormatOf(name), formatOf(text))
	if d.Format == record.CSV {
		guessCSV(text, name, &d)
	}
	return d, nil
}

// Preview is like Guess for a file that d describes.
func Preview(beginning []byte, d Description, o Options) (Guessed, error) {
	g := Guessed{Description: d, Columns: []Sample{}}
	text, err := readable(beginning, &d, o)
	if err != nil {
		return g, err
	}
	if err := g.sample(text, d); err != nil {
		return g, err
	}
	if len(g.Columns) == 0 {
		return g, errors.New("the file has no columns")
	}
	if d.Resource == "" {
		g.Description.Resource = record.Entity
		if slices.ContainsFunc(g.Columns, func(s Sample) bool { return slices.Contains([]string{"name", "occurred_at", "entity_id"}, s.Source) }) {
			g.Description.Resource = record.Event
		}
	}
	described := g.Description
	if len(described.Columns) == 0 {
		described.Columns = []Column{{Source: "", Out: true}} // so that others become attributes
	}
	c, err := newColumns(described, nil)
	if err != nil {
		return g, err
	}
	for i, s := range g.Columns {
		g.Columns[i].Field = c.of(s.Source).field()
	}
	return g, nil
}

// readable returns the text in UTF-8, and notes UTF-16 in the description.
func readable(beginning []byte, d *Description, o Options) ([]byte, error) {
	var lines lineReader
	if err := lines.open(bytes.NewReader(beginning), o.decoder(d.Encoding)); err != nil {
		return nil, err
	}
	text := make([]byte, GuessBytes)
	n, err := io.ReadFull(lines.in, text) // a gzip file is cut off here, so errors are ignored once there is text
	text = text[:n]
	if n == 0 && err != io.EOF {
		return nil, err
	}
	if d.Encoding == "" && len(text) > 3 {
		switch {
		case text[0] != 0 && text[1] == 0 && text[2] != 0 && text[3] == 0:
			d.Encoding = "utf-16le"
		case text[0] == 0 && text[1] != 0 && text[2] == 0 && text[3] != 0:
			d.Encoding = "utf-16be"
		default:
			return text, nil
		}
		return readable(beginning, d, o)
	}
	return text, nil
}

func formatOf(text []byte) record.Format {
	text = bytes.TrimSpace(text)
	switch {
	case bytes.HasPrefix(text, []byte("[")):
		return record.JSON
	case bytes.HasPrefix(text, []byte("{")):
		if line, _, _ := bytes.Cut(text, []byte("\n")); !jsontext.Value(bytes.TrimSpace(line)).IsValid() && len(line) < len(text) {
			return record.JSON // an object on several lines
		}
		return record.NDJSON
	}
	return record.CSV
}

// guessCSV sets the delimiter if it is not a comma, and between tabs NoQuote, if that makes rows
// equally long that have misplaced quotes, and fewer rows are well quoted.
func guessCSV(text []byte, name string, d *Description) {
	if d.Delimiter == "" {
		best, most := "", 0
		for _, delimiter := range []string{",", ";", "\t", "|"} {
			try := *d
			if try.Delimiter = delimiter; delimiter == "\t" && isTSV(name) {
				best = delimiter
				break
			}
			if columns, _, _ := shape(text, try); columns > most {
				best, most = delimiter, columns
			}
		}
		if d.Delimiter = best; best == "," || separatorLine.Match(firstLine(text)) {
			d.Delimiter = ""
		}
	}
	if d.Quote == "" && d.Delimiter == "\t" {
		unquoted := *d
		unquoted.Quote = NoQuote
		_, bad, quoted := shape(text, *d)
		if _, without, _ := shape(text, unquoted); without < bad && quoted < bad {
			d.Quote = NoQuote
		}
	}
}

func firstLine(text []byte) []byte {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return bytes.TrimRight(line, "\r")
}

// shape returns the number of columns, how many of the first rows do not fit it, and how many of
// those that do have cells in quotes.
func shape(text []byte, d Description) (columns, bad, quoted int) {
	rows, err := csvRows(text, d)
	if err != nil {
		return 0, 0, 0
	}
	for n := range sampleRows {
		row, err := rows.next()
		if err != nil {
			break
		}
		if n == 0 {
			columns = len(row.cells)
		}
		switch {
		case row.err != nil || len(row.cells) != columns:
			bad++
		case slices.ContainsFunc(row.cells, func(c cell) bool { return c.quoted }):
			quoted++
		}
	}
	return columns, bad, quoted
}

func csvRows(text []byte, d Description) (*csvReader, error) {
	var lines lineReader
	if err := lines.open(bytes.NewReader(whole(text)), nil); err != nil {
		return nil, err
	}
	for range d.SkipLines {
		lines.next(nil) //nolint:errcheck // the next call reports it
	}
	return newCSVReader(&lines, d)
}

// whole returns the text without its last line if that may be cut off.
func whole(text []byte) []byte {
	if end := bytes.LastIndexAny(text, "\n\r"); len(text) == GuessBytes && end >= 0 {
		text = text[:end+1]
	}
	return text
}

// sample reads the first rows.
func (g *Guessed) sample(text []byte, d Description) error {
	if d.Format == record.CSV {
		rows, err := csvRows(text, d)
		if err != nil {
			return err
		}
		names, err := rows.header(d)
		if err != nil {
			return err
		}
		for i, name := range names {
			if name == "" {
				name = columnName(i)
			}
			g.Columns = append(g.Columns, Sample{Source: name})
		}
		for range maxSampled {
			row, err := rows.next()
			if err != nil {
				break
			}
			for i, c := range row.cells[:min(len(row.cells), len(g.Columns))] {
				g.Columns[i].Values = append(g.Columns[i].Values, recordfile.Restore(c.text))
			}
		}
		return nil
	}
	rows, err := Open(bytes.NewReader(text), Description{Resource: record.Entity, Format: d.Format, SkipLines: d.SkipLines}, Options{})
	at := make(map[string]int)
	for n := 0; err == nil && n < sampleRows; n++ {
		var row Row
		if row, err = rows.Read(); err == nil {
			g.sampleMembers(row.Text, at)
		}
	}
	return nil
}

func (g *Guessed) sampleMembers(object string, at map[string]int) {
	members, _ := record.Pairs([]byte(object))
	for _, m := range members {
		i, known := at[m.Name]
		if !known {
			i = len(g.Columns)
			at[m.Name] = i
			g.Columns = append(g.Columns, Sample{Source: m.Name})
		}
		if s := &g.Columns[i]; len(s.Values) < maxSampled {
			value := string(m.Value)
			if text, err := jsontext.AppendUnquote(nil, m.Value); err == nil {
				value = string(text)
			}
			s.Values = append(s.Values, record.ShortenTo(value, 200))
		}
	}
}

// FormatOf returns the format for a file's extension, ignoring .gz and .zip, or "" for an unknown
// one.
func FormatOf(name string) record.Format {
	if isTSV(name) {
		return record.CSV
	}
	return recordfile.FormatOf(strings.TrimSuffix(strings.ToLower(name), ".zip"))
}

func isTSV(name string) bool {
	name = strings.ToLower(name)
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".zip"), ".gz")
	return strings.HasSuffix(name, ".tsv") || strings.HasSuffix(name, ".tab")
}
