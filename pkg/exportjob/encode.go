package exportjob

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// encoder writes records in the format of a file. It buffers nothing.
type encoder interface {
	begin(w io.Writer) error // what stands before the first record of the file
	write(w io.Writer, r row) error
}

// newEncoder makes the encoder of a job whose survey is done, if it needs one.
func newEncoder(j Job) encoder {
	if j.Format == CSV {
		return newCSVEncoder(j)
	}
	return new(ndjsonEncoder)
}

// ndjsonEncoder writes the line of each record as the API would show it. It
// writes the tokens itself: what encodes any type is much for a function to link.
type ndjsonEncoder struct {
	line bytes.Buffer
	json jsontext.Encoder
}

func (e *ndjsonEncoder) begin(io.Writer) error { return nil }

func (e *ndjsonEncoder) write(w io.Writer, r row) error {
	e.line.Reset()
	e.json.Reset(&e.line, jsontext.PreserveRawStrings(true))
	o := object{Encoder: &e.json}
	o.token(jsontext.BeginObject)
	switch v := r.value.(type) {
	case entity.Entity:
		o.text("id", v.ID)
		o.text("type", v.Type)
		o.value("attributes", v.Attributes)
		o.text("created_at", v.CreatedAt.String())
		o.text("updated_at", v.UpdatedAt.String())
	case event.Event:
		o.text("id", v.ID)
		o.text("name", v.Name)
		if v.EntityID == "" {
			o.value("entity_id", record.Attributes("null"))
		} else {
			o.text("entity_id", string(v.EntityID))
		}
		o.text("occurred_at", v.OccurredAt.String())
		o.value("attributes", v.Attributes)
		o.text("created_at", v.CreatedAt.String())
	}
	o.token(jsontext.EndObject) // ends the line, too
	if o.err != nil {
		return fmt.Errorf("encode record: %w", o.err)
	}
	_, err := w.Write(e.line.Bytes())
	return err
}

// object is a JSON object that is being written, until err.
type object struct {
	*jsontext.Encoder
	err error
}

func (o *object) token(t jsontext.Token) {
	if o.err == nil {
		o.err = o.WriteToken(t)
	}
}

func (o *object) text(name, value string) {
	o.token(jsontext.String(name))
	o.token(jsontext.String(value))
}

func (o *object) value(name string, value record.Attributes) {
	o.token(jsontext.String(name))
	if o.err == nil {
		o.err = o.WriteValue(jsontext.Value(value))
	}
}

// attributePrefix stands before the name of an attribute in a CSV header, so
// that none can be taken for a field of the record.
const attributePrefix = "attributes."

// Columns is the header of a CSV file: the fields of the records in the order
// of their JSON, but for attributes; then, for every attribute that any of the
// records has, "attributes." and its name, in the order of bytes.
func Columns(resource Resource, attributes []string) []string {
	columns := []string{"id", "type", "created_at", "updated_at"}
	if resource == Event {
		columns = []string{"id", "name", "entity_id", "occurred_at", "created_at"}
	}
	for _, name := range attributes {
		columns = append(columns, attributePrefix+name)
	}
	return columns
}

// csvEncoder writes CSV with lines that end in CR LF. A string stands in its
// cell as it is, a number with its digits, true and false as these words, an
// object or a list as JSON; an attribute that is null or missing leaves its cell
// empty. encoding/csv would not do: where its lines end in CR LF, it changes the
// line breaks in cells.
type csvEncoder struct {
	columns []string
	place   map[string]int // attribute → its column
	keep    bool           // formulas
	cells   []string
	line    bytes.Buffer
}

func newCSVEncoder(j Job) *csvEncoder {
	e := &csvEncoder{columns: Columns(j.Resource, j.Progress.Survey.Names), keep: j.CSVFormulas == Keep, place: make(map[string]int)}
	e.cells = make([]string, len(e.columns))
	fixed := len(e.columns) - len(j.Progress.Survey.Names)
	for i, name := range j.Progress.Survey.Names {
		e.place[name] = fixed + i
	}
	return e
}

func (e *csvEncoder) begin(w io.Writer) error { return e.writeLine(w, e.columns) }

func (e *csvEncoder) write(w io.Writer, r row) error {
	clear(e.cells)
	switch v := r.value.(type) {
	case entity.Entity:
		copy(e.cells, []string{v.ID, v.Type, v.CreatedAt.String(), v.UpdatedAt.String()})
	case event.Event:
		copy(e.cells, []string{v.ID, v.Name, string(v.EntityID), v.OccurredAt.String(), v.CreatedAt.String()})
	}
	err := eachAttribute(r.attributes, func(name string, value jsontext.Value) error {
		if i, ok := e.place[name]; ok { // an entity may have got an attribute since the survey
			cell, err := cellOf(value)
			e.cells[i] = cell
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !e.keep {
		for i, cell := range e.cells {
			e.cells[i] = neutralize(cell)
		}
	}
	return e.writeLine(w, e.cells)
}

func (e *csvEncoder) writeLine(w io.Writer, cells []string) error {
	e.line.Reset()
	for i, cell := range cells {
		if i > 0 {
			e.line.WriteByte(',')
		}
		if !strings.ContainsAny(cell, "\",\r\n") {
			e.line.WriteString(cell)
			continue
		}
		e.line.WriteByte('"')
		e.line.WriteString(strings.ReplaceAll(cell, `"`, `""`))
		e.line.WriteByte('"')
	}
	e.line.WriteString("\r\n")
	_, err := w.Write(e.line.Bytes())
	return err
}

// eachAttribute calls do with the name and value of every attribute. The value
// is good until the call returns.
func eachAttribute(a record.Attributes, do func(name string, value jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(a))
	if _, err := dec.ReadToken(); err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("read attributes: %w", err)
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return fmt.Errorf("read attributes: %w", err)
		}
		if err := do(name, value); err != nil {
			return err
		}
	}
	return nil
}

// cellOf is the value of an attribute as text.
func cellOf(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case 'n':
		return "", nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err
	}
	return string(value), nil
}

// plainNumber is compiled when a cell first needs it, not at each function's start.
var plainNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
})

// neutralize puts an apostrophe before a cell that a spreadsheet would take for
// a formula by its first character, unless it is a number. Source: OWASP, "CSV
// Injection".
func neutralize(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) || plainNumber().MatchString(cell) {
		return cell
	}
	return "'" + cell
}

// Bounds of a CSV header, which a job remembers until its file is written.
const (
	maxColumns     = 2000  // names of attributes
	maxColumnBytes = 64000 // of these names together
)

// surveyor collects the names of attributes.
type surveyor struct {
	names map[string]bool
	bytes int
}

func newSurveyor(s Survey) *surveyor {
	v := &surveyor{names: make(map[string]bool)}
	for _, name := range s.Names {
		v.note(name)
	}
	return v
}

func (v *surveyor) note(name string) {
	if !v.names[name] {
		v.names[strings.Clone(name)] = true
		v.bytes += len(name)
	}
}

// look notes the attributes of r. It fails with a failure when there are more
// than a header may have.
func (v *surveyor) look(r row) error {
	err := eachAttribute(r.attributes, func(name string, _ jsontext.Value) error {
		v.note(name)
		return nil
	})
	if err == nil && (len(v.names) > maxColumns || v.bytes > maxColumnBytes) {
		return failure(fmt.Sprintf("The records have more than %d different attributes, or %d bytes of names: too many for the columns of a CSV file. Export them as NDJSON.", maxColumns, maxColumnBytes))
	}
	return err
}

func (v *surveyor) sorted() []string { return slices.Sorted(maps.Keys(v.names)) }
