// Package importfile decides how a file becomes records: what its format and columns are, how
// texts become times and values, which id a row without one gets, and what is wrong with a row.
// "sluice import" and the dashboard run this package, so both store the same records and reject
// the same rows for the same reasons.
//
// It has no input or output of its own. It reads the file from an io.Reader, and needs the
// caller for encodings other than UTF-8 and for time zones: a program that wants zones where the
// system has none must import time/tzdata.
package importfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// Options is what a Reader needs besides the Description.
type Options struct {
	// ID returns the id of a record that has none in the file; if nil, an id of zeros stands for it.
	// line is Row.Line. Usually it is SeededID.
	ID func(line int64) string

	// Decode returns a reader of r's text in UTF-8. encoding is Description.Encoding. It may be nil
	// for files in UTF-8 and UTF-16. Bytes that are not text become U+FFFD.
	Decode func(encoding string, r io.Reader) (io.Reader, error)

	Indexes []Index // the indexed attributes of the workspace
}

// Index is an indexed attribute, which decides the type of a column without a type.
type Index struct {
	EntityType string    `json:"type"`
	Attribute  string    `json:"attribute"`
	Type       ValueType `json:"value_type"`
}

// decoder returns nil if nothing is to be decoded.
func (o Options) decoder(encoding string) func(io.Reader) (io.Reader, error) {
	switch encoding {
	case "":
		return nil
	case "utf-16", "utf-16le":
		return decodeUTF16
	case "utf-16be":
		return func(r io.Reader) (io.Reader, error) { return newUTF16Reader(r, binary.BigEndian), nil }
	}
	return func(r io.Reader) (io.Reader, error) {
		if o.Decode == nil {
			return nil, fmt.Errorf("the encoding %s is not supported here", encoding)
		}
		return o.Decode(encoding, r)
	}
}

// Row is a row of a CSV file, a line of an NDJSON file or an element of a JSON file.
type Row struct {
	Line     int64  // number of the first line, from 1; in a JSON file, number of the element
	LastLine int64  // greater than Line only in CSV
	Offset   int64  // how many bytes of the file were read up to the end of the row; may be more if it is compressed
	Text     string // as in the file, without the line break; empty if the row is too long

	ID     string       // of the record; empty if Err is set
	Entity entity.Draft // the record, if the file has entities
	Event  event.Draft  // the record, if the file has events

	Filtered bool // whether the row says that its entity has left the filter of a walk

	Err error // why the row is not a record, for users
}

// Encode returns JSON for a request, or nil if Err is set. It sets Err if the record is too large.
func (r *Row) Encode() []byte {
	if r.Err != nil {
		return nil
	}
	text := r.JSON()
	if len(text) > record.MaxAttributesBytes {
		r.Err = fmt.Errorf("the record is larger than %d bytes", record.MaxAttributesBytes)
		return nil
	}
	return text
}

// JSON returns the record as the API accepts it.
func (r *Row) JSON() []byte {
	o := object{}
	add := func(name, text string) {
		if text != "" {
			o.fields = append(o.fields, record.Pair{Name: name, Value: quote(text)})
		}
	}
	add("id", r.ID)
	attributes := r.Entity.Attributes
	if r.Event.Name != "" {
		attributes = r.Event.Attributes
		add("name", r.Event.Name)
		add("entity_id", r.Event.EntityID)
		if r.Event.OccurredAt != nil {
			add("occurred_at", r.Event.OccurredAt.String())
		}
	} else {
		add("type", r.Entity.Type)
	}
	if r.Entity.Deleted {
		o.fields = append(o.fields, record.Pair{Name: "deleted", Value: []byte("true")})
		return joined(o.fields)
	}
	o.fields = append(o.fields, record.Pair{Name: "attributes", Value: attributes})
	if r.Entity.Replace {
		o.fields = append(o.fields, record.Pair{Name: "replace", Value: []byte("true")})
	}
	return joined(o.fields)
}

// Reader reads the rows of a file in order. It is not safe for concurrent use.
type Reader struct {
	description Description
	columns     *columns
	id          func(line int64) string
	lines       lineReader
	csv         *csvReader
	header      []*column
	array       *arrayReader

	surveyed bool   // whether to count what the rows have
	cells    []cell // of the last row of a CSV file, if surveyed
}

// Open reads the beginning of a file, which may be compressed with gzip and may begin with a byte
// order mark. It fails if d is not valid, if the file cannot be unpacked or decoded, or if the
// header of a CSV file is not valid.
//
// In a CSV file, it reads each cell of an Auto column by itself. Use the description that
// ChooseTypes or Survey returns for one type per column.
func Open(file io.Reader, d Description, o Options) (*Reader, error) {
	r := &Reader{description: d, id: o.ID}
	if r.id == nil {
		r.id = func(int64) string { return noID }
	}
	var err error
	if r.columns, err = newColumns(d, o.Indexes); err != nil {
		return nil, err
	}
	if err = r.lines.open(file, o.decoder(d.Encoding)); err != nil {
		return nil, err
	}
	for range d.SkipLines {
		if _, err := r.lines.next(nil); err != nil && !errors.Is(err, errLongLine) && err != io.EOF {
			return nil, err
		}
	}
	switch d.Format {
	case record.CSV:
		if r.csv, err = newCSVReader(&r.lines, d); err != nil {
			return nil, err
		}
		var names []string
		if names, err = r.csv.header(d); err != nil {
			return nil, err
		}
		if r.header, err = r.columns.ofHeader(names); err != nil {
			return nil, r.csv.atHeader(err)
		}
	case record.JSON:
		r.array = newArrayReader(r.lines.in)
	}
	return r, nil
}

// Read returns the next row, or io.EOF after the last one. After any other error, the rest of
// the file cannot be read. An error of a single row is in Row.Err.
func (r *Reader) Read() (row Row, err error) {
	var text []byte
	switch {
	case r.csv != nil:
		row, text, err = r.readCSV()
	case r.array != nil:
		row, text, err = r.readElement()
	default:
		row, text, err = r.readLine()
	}
	if err != nil {
		return Row{}, err
	}
	if row.Offset = r.lines.offset(); row.Err == nil {
		r.parse(&row, text)
	}
	switch {
	case row.Err != nil && !utf8.ValidString(row.Text):
		row.Err = fmt.Errorf("%w; for text that is not UTF-8, say which encoding the file has, such as windows-1252", row.Err)
	case r.description.Encoding != "" && strings.ContainsRune(row.Text, utf8.RuneError):
		row.Err = fmt.Errorf("the record has bytes that are not text in %s", r.description.Encoding)
	}
	if row.Err != nil && row.LastLine > row.Line {
		row.Err = fmt.Errorf("%w; the row goes from line %d to line %d, so a quote may be missing or left open", row.Err, row.Line, row.LastLine)
	}
	return row, nil
}

// readLine skips blank lines.
func (r *Reader) readLine() (Row, []byte, error) {
	for {
		line, err := r.lines.next(nil)
		row := Row{Line: r.lines.number, LastLine: r.lines.number}
		object := bytes.TrimSpace(line)
		switch {
		case errors.Is(err, errLongLine):
			row.Err = err
			return row, nil, nil
		case err != nil:
			return row, nil, err
		case len(object) > 0:
			row.Text = trimEnd(string(line))
			return row, object, nil
		}
	}
}

func (r *Reader) readElement() (Row, []byte, error) {
	value, err := r.array.next()
	row := Row{Line: r.array.count, LastLine: r.array.count}
	if len(value) > MaxRecordBytes {
		row.Err = errLongElement
		return row, nil, err
	}
	row.Text = strings.TrimSpace(string(value))
	return row, []byte(row.Text), err
}

// readCSV returns the record in the form of the API.
func (r *Reader) readCSV() (row Row, object []byte, err error) {
	in, err := r.csv.next()
	if err != nil {
		return row, nil, err
	}
	row = Row{Line: in.line, LastLine: r.lines.number, Text: trimEnd(string(in.text)), Err: in.err}
	var cells []cell
	if row.Err == nil {
		if cells, row.Err = r.csv.fit(in.cells); r.surveyed && row.Err == nil {
			r.cells = cells
			r.count(cells)
		}
	}
	if row.Err == nil {
		object, row.Err = r.columns.ofRow(r.header, cells)
	}
	return row, object, nil
}

// parse sets the record of the row, or Err.
func (r *Reader) parse(row *Row, object []byte) {
	if r.csv != nil {
		r.decode(row, object)
		return
	}
	if r.columns.plain() && !r.surveyed {
		r.decode(row, object)
		if row.Err == nil {
			return
		}
	}
	if object, row.Err = r.columns.ofObject(object); row.Err == nil {
		r.decode(row, object)
	}
}

// decode reads a record in the form of the API.
func (r *Reader) decode(row *Row, object []byte) {
	if r.description.Resource == record.Entity {
		if r.description.Mirror {
			r.mirror(row, object)
		} else {
			row.Entity, row.Err = entity.Parse(object, r.columns.ignored...)
		}
		if row.Entity.ID == "" {
			row.Entity.ID = r.id(row.Line)
		}
		row.ID = row.Entity.ID
		return
	}
	row.Event, row.Err = event.Parse(object, r.columns.ignored...)
	if row.Event.ID == "" {
		row.Event.ID = r.id(row.Line)
	}
	row.ID = row.Event.ID
	if row.Err == nil && row.Event.OccurredAt == nil && r.description.Time != TimeNow {
		row.Err = errNoTime
	}
}

// errNoTime rejects an event that would otherwise get the time of its import.
var errNoTime = errors.New("the event has no time; say what becomes occurred_at, or that the time is now")

// Missing returns an error if the description turns a member into a field, but no row so far has
// that member. The name is probably misspelled, and without the id, for example, every record would
// get a new one. If attributes is false, members that become attributes may be missing.
func (r *Reader) Missing(attributes bool) error { return r.columns.missing(attributes) }

// SawMembers reports whether at least one row so far was an object with members.
func (r *Reader) SawMembers() bool { return r.columns.readable }

const noID = "00000000-0000-0000-0000-000000000000"

// SeededID returns the id for a record without one: a UUIDv8 (RFC 9562) that depends only on
// the seed and on the line where the record begins.
func SeededID(seed string, line int64) string {
	sum := sha256.Sum256(fmt.Appendf(make([]byte, 16), "%s %d", seed, line))
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	text := hex.EncodeToString(id)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// quote returns a JSON string in which U+FFFD replaces bytes that are not UTF-8.
func quote(text string) []byte {
	b, _ := jsontext.AppendQuote(nil, text) // the error says only that the text is not UTF-8
	return b
}
