package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"sluice/pkg/api"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// Shape says how a file differs from one that Sluice exported; the zero Shape means no
// difference. It is saved in the journal, because the same file with another Shape yields
// other records.
type Shape struct {
	Map        map[string]string `json:"map,omitempty"`         // field for each column or member, "" to leave it out; if Map is not empty, unknown names become attributes
	Delimiter  string            `json:"delimiter,omitempty"`   // between the cells of a CSV file; a comma if empty
	Encoding   string            `json:"encoding,omitempty"`    // result of the function Encoding; UTF-8 if empty
	TimeFormat string            `json:"time_format,omitempty"` // strftime format of occurred_at; RFC 3339 if empty
	TimeZone   string            `json:"time_zone,omitempty"`   // zone of times without an offset, such as Europe/Berlin; UTC if empty
	Name       string            `json:"name,omitempty"`        // name for events that have none
	Type       string            `json:"type,omitempty"`        // type for entities that have none
}

const attributePrefix = "attributes."

// shaper turns a file's records into the form that the API accepts.
type shaper struct {
	Shape
	columns  []string          // fields that a column or member can name, except attributes
	ignored  []string          // of these, the ones that the service sets
	rename   bool              // whether to rename the members of JSON objects; CSV columns are renamed in the header
	found    map[string]bool   // keys of Map that have been found in the file
	readable bool              // whether at least one record's members could be read
	encoding encoding.Encoding // nil for UTF-8
	times    *timeFormat       // nil for RFC 3339
}

func newShaper(s Shape, format record.Format, members []record.Member) (*shaper, error) {
	shape := &shaper{
		Shape: s, columns: record.Columns(members), ignored: record.SetByService(members),
		rename: len(s.Map) > 0 && format != record.CSV, found: make(map[string]bool),
	}
	err := shape.checkMap()
	if err != nil {
		return nil, err
	}
	if s.Encoding != "" {
		if shape.encoding, err = htmlindex.Get(s.Encoding); err != nil {
			return nil, err
		}
	}
	if s.TimeFormat != "" {
		shape.times, err = newTimeFormat(s.TimeFormat, s.TimeZone)
	} else if s.TimeZone != "" {
		err = errors.New("--time-zone needs --time-format")
	}
	return shape, err
}

// Check returns an error if a file with this Shape cannot be imported.
func (s Shape) Check(resource record.Resource, format record.Format) error {
	switch {
	case s.Delimiter != "" && format != record.CSV:
		return errors.New("--delimiter is for CSV")
	case s.Name != "" && resource != record.Event:
		return errors.New("--name is for events; use --type for entities")
	case s.Type != "" && resource != record.Entity:
		return errors.New("--type is for entities; use --name for events")
	case s.TimeFormat != "" && resource != record.Event:
		return errors.New("--time-format is for occurred_at of events")
	}
	_, err := newShaper(s, format, api.Members(resource))
	return err
}

// Encoding returns the canonical label of an encoding, or "" for UTF-8.
func Encoding(label string) (string, error) {
	found, err := htmlindex.Get(label)
	if err != nil || found == encoding.Replacement {
		return "", fmt.Errorf("--encoding %s is unknown; use a name such as windows-1252, iso-8859-15, macintosh, utf-16 or shift_jis", label)
	}
	if found == unicode.UTF8 {
		return "", nil
	}
	return htmlindex.Name(found)
}

// checkMap fails if Map contains an unknown field, or the same field twice.
func (s *shaper) checkMap() error {
	from := make(map[string]string)
	for _, column := range slices.Sorted(maps.Keys(s.Map)) {
		field := s.Map[column]
		if field != "" && (!s.isField(field) || slices.Contains(s.ignored, field)) {
			fields := slices.DeleteFunc(slices.Clone(s.columns), func(name string) bool { return slices.Contains(s.ignored, name) })
			return fmt.Errorf("--map %s=%s: %q is not a field; the fields are %s, attributes and %sNAME", column, field, field, strings.Join(fields, ", "), attributePrefix)
		}
		if other, taken := from[field]; taken && field != "" {
			return fmt.Errorf("--map makes both %q and %q the field %s", other, column, field)
		}
		from[field] = column
	}
	return nil
}

func (s *shaper) isField(name string) bool {
	return strings.HasPrefix(name, attributePrefix) || name == "attributes" || slices.Contains(s.columns, name)
}

// field returns the field that a column or member becomes, or "" if Map leaves it out.
func (s *shaper) field(name string) string {
	field, mapped := s.Map[name]
	switch {
	case mapped:
		s.found[name] = true
		return field
	case len(s.Map) == 0 || s.isField(name):
		return name
	}
	return attributePrefix + name
}

// find remembers which keys of Map are members of a record.
func (s *shaper) find(members []record.Pair) {
	s.readable = true
	for _, m := range members {
		if _, mapped := s.Map[m.Name]; mapped {
			s.found[m.Name] = true
		}
	}
}

// layout returns the file's layout. After the header is read, checkHeader must be called.
func (s *shaper) layout() recordfile.Layout {
	l := recordfile.Layout{Columns: s.columns, Delimiter: s.Delimiter}
	if len(s.Map) > 0 {
		l.Rename = s.field
	}
	if s.encoding != nil {
		l.Decode = func(r io.Reader) io.Reader {
			return transform.NewReader(r, unicode.BOMOverride(s.encoding.NewDecoder()))
		}
	}
	return l
}

// checkHeader fails if the file is CSV and lacks a column that Map names.
func (s *shaper) checkHeader(format record.Format) error {
	if format != record.CSV {
		return nil
	}
	if missing := s.missing(); len(missing) > 0 {
		return fmt.Errorf("line 1: the header lacks the column %q of --map", missing[0])
	}
	return nil
}

// checkFound returns an error if Map turns a member into a field but no record so far has that
// member. Its name is probably misspelled, and without the id, for example, every record would get
// a new one. If attributes is false, members that become attributes may be missing.
func (s *shaper) checkFound(attributes bool) error {
	if !s.readable {
		return nil
	}
	for _, member := range s.missing() {
		field := s.Map[member]
		if isAttribute := field == "attributes" || strings.HasPrefix(field, attributePrefix); field != "" && (attributes || !isAttribute) {
			return fmt.Errorf("no record has the member %q of --map; write it as in the file, or leave out %s=%s", member, member, field)
		}
	}
	return nil
}

// missing returns the keys of Map that have not been found so far.
func (s *shaper) missing() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Map)), func(column string) bool { return s.found[column] })
}

// checkNames reads the file until it has found every member that Map turns into a field,
// usually in the first record.
func checkNames(ctx context.Context, file inputFile, w work, o Options) error {
	if len(o.Shape.Map) == 0 || o.Format == record.CSV {
		return nil
	}
	in, err := file.content(w)
	if err != nil {
		return err
	}
	records, err := openRecords(in, o, func(int64) string { return "" })
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Path, err)
	}
	for ctx.Err() == nil {
		_, err := records.read()
		missing := records.shape.checkFound(false)
		switch {
		case err == io.EOF:
			return missing
		case err != nil: // the import reports this error after importing the preceding records
			return nil
		case missing == nil && records.shape.readable:
			return nil
		}
	}
	return context.Cause(ctx)
}
