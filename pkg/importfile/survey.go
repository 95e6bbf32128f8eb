package importfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

// maxExamples is how many rows a Report shows for each reason.
const maxExamples = 20

// Report says what an import of a file would do.
type Report struct {
	Description Description `json:"description"` // with the types of ChooseTypes, for the import

	Valid    int64           `json:"valid"`    // records that would be sent
	Deleted  int64           `json:"deleted"`  // of them, those that would delete an entity
	Rejected int64           `json:"rejected"` // rows that would be rejected
	First    json.RawMessage `json:"first"`    // first record that would be sent; null if none would be
	Rejects  []Rejects       `json:"rejects"`  // by reason, in the order of the first row of each
	Columns  []ColumnReport  `json:"columns"`  // in the order in which they were found
	Notes    []string        `json:"notes"`    // what the user should know: sentences without a capital and a period

	EmptyRows    int64 `json:"empty_rows"`    // rows of a CSV file that have only empty cells, and are skipped
	WithoutTime  int64 `json:"without_time"`  // events that would occur when they are imported
	DuplicateIDs int64 `json:"duplicate_ids"` // records whose id an earlier record of the file has
}

// ColumnReport says what becomes of a column or member.
type ColumnReport struct {
	Source string    `json:"source"`
	Field  string    `json:"field"` // as in Column; empty if it is left out
	Type   ValueType `json:"type"`  // of an attribute in a CSV file
	Values int64     `json:"values"`
	Kinds  string    `json:"kinds"` // how many values have which type, such as "64 numbers, 8 text"; empty for what is no attribute
	Mixed  bool      `json:"mixed"` // whether the values have several types
}

// Rejects are the rows that would be rejected for one reason, which may name different values.
type Rejects struct {
	Reason   string     `json:"reason"` // of the first row
	Count    int64      `json:"count"`
	Examples []Rejected `json:"examples"` // the first maxExamples rows

	kind string // Reason without what differs from row to row
}

// Rejected is a row that would be rejected.
type Rejected struct {
	Line     int64  `json:"line"` // as in Row
	LastLine int64  `json:"last_line"`
	Reason   string `json:"reason"`
	Text     string `json:"text"` // as in Row; shortened in a Report
}

// survey collects a Report.
type survey struct {
	Report
	rows       *Reader
	first      []cell            // cells of the first record of a CSV file
	ids        []idLine          // of the records
	attributes map[string]*kinds // by name
	seed       maphash.Seed
}

type idLine struct {
	hash uint64
	line int64
}

// Survey reads a whole file and reports what an import would do. It ignores o.ID. each may be nil;
// it is called after every row, and its error ends the survey. The report is also returned with an
// error, for the rows before it.
func Survey(file io.Reader, d Description, o Options, each func(Row) error) (Report, error) {
	s := &survey{Report: Report{Description: d, Rejects: []Rejects{}, Columns: []ColumnReport{}, Notes: []string{}}, attributes: make(map[string]*kinds), seed: maphash.MakeSeed()}
	o.ID = nil
	var err error
	if s.rows, err = Open(file, d, o); err != nil {
		return s.Report, err
	}
	s.rows.surveyed = true
	for {
		row, err := s.rows.Read()
		if err == io.EOF {
			break
		}
		if err == nil {
			s.add(&row)
			if each != nil {
				err = each(row)
			}
		}
		if err != nil {
			return s.Report, err
		}
	}
	s.finish(o.Indexes)
	return s.Report, s.rows.Missing(false)
}

func (s *survey) add(row *Row) {
	text := row.Encode()
	if row.Err != nil {
		s.Rejected++
		s.reject(row)
		return
	}
	if s.Valid++; s.First == nil {
		s.First, s.first = text, s.rows.cells
	}
	if row.Entity.Deleted {
		s.Deleted++
	}
	if row.ID != noID {
		s.ids = append(s.ids, idLine{maphash.String(s.seed, row.ID), row.Line})
	}
	if s.Description.Resource == record.Event && row.Event.OccurredAt == nil {
		s.WithoutTime++
	}
	attributes := row.Entity.Attributes
	if s.Description.Resource == record.Event {
		attributes = row.Event.Attributes
	}
	members, _ := record.Pairs(attributes) // they are valid
	for _, m := range members {
		k := s.attributes[m.Name]
		if k == nil && len(s.attributes) < maxAttributes {
			k = new(kinds)
			s.attributes[m.Name] = k
		}
		if k != nil {
			k.add(jsontext.Value(m.Value).Kind())
		}
	}
}

// maxAttributes bounds the memory for files in which each record has other attributes.
const maxAttributes = 10_000

func (s *survey) reject(row *Row) {
	reason := row.Err.Error()
	kind := kindOf(reason)
	at := slices.IndexFunc(s.Rejects, func(r Rejects) bool { return r.kind == kind })
	if at < 0 {
		at = len(s.Rejects)
		s.Rejects = append(s.Rejects, Rejects{Reason: reason, kind: kind})
	}
	group := &s.Rejects[at]
	if group.Count++; len(group.Examples) < maxExamples {
		group.Examples = append(group.Examples, Rejected{row.Line, row.LastLine, reason, record.ShortenTo(row.Text, 200)})
	}
}

// kindOf returns a reason without quoted texts and digits.
func kindOf(reason string) string {
	parts := strings.Split(reason, `"`)
	for i := range parts {
		if i%2 == 1 {
			parts[i] = ""
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, strings.Join(parts, `"`))
}

// finish sets what only the whole file shows.
func (s *survey) finish(indexes []Index) {
	columns := s.rows.columns
	if s.rows.csv != nil {
		s.EmptyRows = s.rows.csv.blank
	}
	s.Description = s.rows.withTypes()
	if s.first != nil { // now that the types are known
		row := Row{}
		if object, err := columns.ofRow(s.rows.header, s.first); err == nil {
			if s.rows.decode(&row, object); row.Err == nil {
				s.First = row.JSON()
			}
		}
	}
	list := s.rows.header
	if s.rows.csv == nil {
		list = columns.order
	}
	var service, taken, unnamed []string
	for _, col := range list {
		s.column(col)
		described := slices.ContainsFunc(columns.Columns, func(c Column) bool { return c.Source == col.Source })
		switch {
		case described:
		case slices.Contains(columns.ignored, col.Source):
			service = append(service, col.Source)
		case col.out():
			unnamed = append(unnamed, col.Source)
		case !col.attribute && len(columns.Columns) > 0:
			taken = append(taken, col.Source)
		}
	}
	s.note(service, "is left out, because the service sets it", "are left out, because the service sets them")
	s.note(unnamed, "has no name and is left out", "have no name and are left out")
	s.note(taken, "becomes the field of the same name", "become the fields of the same names")
	if s.Description.Mirror {
		s.Notes = append(s.Notes, fmt.Sprintf("rows that delete their entity: %d; that create or replace a whole one: %d", s.Deleted, s.Valid-s.Deleted))
	}
	s.noteTypes(indexes)
	s.noteIDs()
	if s.EmptyRows > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("empty rows, which are skipped: %d", s.EmptyRows))
	}
	if s.WithoutTime > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("events without a time, which occur when they are imported: %d", s.WithoutTime))
	}
	if err := s.rows.Missing(true); err != nil {
		s.Notes = append(s.Notes, err.Error())
	}
}

func (s *survey) note(names []string, one, many string) {
	switch len(names) {
	case 0:
	case 1:
		s.Notes = append(s.Notes, fmt.Sprintf("the column %s %s", record.Shorten(names[0]), one))
	default:
		s.Notes = append(s.Notes, fmt.Sprintf("the columns %s %s", record.ShortenTo(strings.Join(names, ", "), 200), many))
	}
}

func (s *survey) column(col *column) {
	r := ColumnReport{Source: col.Source, Field: col.field(), Values: col.values}
	if s.rows.csv != nil {
		r.Type = col.Type
	}
	if col.attribute {
		k := &col.kinds
		if *k == (kinds{}) && s.attributes[col.name] != nil {
			k = s.attributes[col.name]
		}
		r.Kinds, r.Mixed = k.String(), k.mixed()
	}
	s.Columns = append(s.Columns, r)
}

// noteTypes notes columns whose values have several types, and attributes whose values an index
// cannot find.
func (s *survey) noteTypes(indexes []Index) {
	mixed := make(map[string]bool) // attributes whose column was converted
	for _, col := range s.rows.header {
		if col.kinds.mixed() {
			mixed[col.name] = true
			s.Notes = append(s.Notes, fmt.Sprintf("the column %s has %s, so all become %s", record.Shorten(col.Source), &col.kinds, col.Type))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.attributes)) {
		k := s.attributes[name]
		if k.mixed() && !mixed[name] {
			s.Notes = append(s.Notes, fmt.Sprintf("the attribute %s has values of several types: %s; a type for it makes them the same", record.Shorten(name), k))
		}
		for _, x := range indexes {
			found := map[ValueType]int64{Text: k.text, Number: k.number, Boolean: k.boolean}
			if x.Attribute == name && s.Description.Resource == record.Entity && found[x.Type] == 0 && k.text+k.number+k.boolean > 0 && !mixed[name] {
				s.Notes = append(s.Notes, fmt.Sprintf("the attribute %s is indexed as %s for entities of the type %s, but the file has %s, which a search does not find", record.Shorten(name), x.Type, x.EntityType, k))
			}
		}
	}
}

func (s *survey) noteIDs() {
	slices.SortFunc(s.ids, func(a, b idLine) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.line, b.line)) })
	first := [2]int64{}
	for i := 1; i < len(s.ids); i++ {
		a, b := s.ids[i-1], s.ids[i]
		if a.hash != b.hash {
			continue
		}
		if s.DuplicateIDs++; first[1] == 0 || b.line < first[1] {
			first = [2]int64{a.line, b.line}
		}
	}
	if s.DuplicateIDs > 0 {
		which := "which of them is stored last is undefined"
		if s.Description.Mirror {
			which = "the last of them counts"
		}
		s.Notes = append(s.Notes, fmt.Sprintf("records with an id that an earlier one has: %d, first those at %d and %d; %s", s.DuplicateIDs, first[0], first[1], which))
	}
}
