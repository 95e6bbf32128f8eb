package importfile

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

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
	Values []string `json:"values"` // of up to maxSampled rows
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
	d := Description{Resource: resource, Format: FormatOf(name)}
	if d.Format == "" {
		d.Format = record.NDJSON
	}
	if d.Format == record.CSV {
		line, _, _ := bytes.Cut(beginning, []byte("\n"))
		d.Delimiter = guessDelimiter(string(line))
	}
	return guessColumns(beginning, d, o)
}

// Preview is like Guess for a file that d describes.
func Preview(beginning []byte, d Description, o Options) (Guessed, error) {
	return guessColumns(beginning, d, o)
}

func guessDelimiter(line string) string {
	best, most := "", strings.Count(line, ",")
	for _, delimiter := range []string{";", "\t", "|"} {
		if n := strings.Count(line, delimiter); n > most {
			best, most = delimiter, n
		}
	}
	return best
}

func guessColumns(beginning []byte, d Description, o Options) (Guessed, error) {
	g := Guessed{Description: d}
	names := make(map[string]int)
	layout := recordfile.Layout{Delimiter: d.Delimiter, Rename: func(column string) string {
		return AttributePrefix + column
	}}
	layout.Decode = o.decoder(d.Encoding, new(error))
	rows, err := recordfile.NewReader(bytes.NewReader(beginning), d.Format, layout)
	for n := 0; err == nil && n < sampleRows; n++ {
		var row recordfile.Record
		if row, err = rows.Read(); err == nil && row.Err == nil {
			g.sample(row.JSON, names, d.Format)
		}
	}
	if err != nil && err != io.EOF && len(g.Columns) == 0 {
		return g, err
	}
	if len(g.Columns) == 0 {
		return g, errors.New("the file has no columns")
	}
	if g.Description.Resource == "" {
		g.Description.Resource = record.Entity
		for _, name := range []string{"name", "occurred_at", "entity_id"} {
			if _, has := names[name]; has {
				g.Description.Resource = record.Event
			}
		}
	}
	c, err := newColumns(g.Description)
	if err != nil {
		return g, err
	}
	for i := range g.Columns {
		s := &g.Columns[i]
		switch s.Field = c.field(s.Source); {
		case slices.Contains(c.ignored, s.Field):
			s.Field = ""
		case s.Field != "" && !c.isField(s.Field):
			s.Field = AttributePrefix + s.Field
		}
	}
	return g, nil
}

func (g *Guessed) sample(object []byte, names map[string]int, format record.Format) {
	members, _ := record.Pairs(object)
	if format == record.CSV && len(members) == 1 {
		members, _ = record.Pairs(members[0].Value)
	}
	for _, m := range members {
		at, known := names[m.Name]
		if !known {
			at = len(g.Columns)
			names[m.Name] = at
			g.Columns = append(g.Columns, Sample{Source: m.Name})
		}
		if s := &g.Columns[at]; len(s.Values) < maxSampled {
			s.Values = append(s.Values, strings.Trim(string(m.Value), `"`))
		}
	}
}

// FormatOf returns the format for a file's extension, ignoring .gz, or "" for an unknown one.
func FormatOf(name string) record.Format {
	if name = strings.ToLower(name); strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".tsv") {
		return record.CSV
	}
	return recordfile.FormatOf(name)
}
