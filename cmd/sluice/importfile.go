package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	api "sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// maxRecordBytes bounds one record in a file. The service takes 256 KB.
const maxRecordBytes = 1 << 20

// The formats of files.
const (
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
)

// formatOf tells a file's format by its name, "" if it cannot.
func formatOf(name string) string {
	switch strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz"))) {
	case ".ndjson", ".jsonl":
		return formatNDJSON
	case ".csv":
		return formatCSV
	}
	return ""
}

// chooseFormat is the format that a flag names, or else that of a file's name;
// NDJSON for "-".
func chooseFormat(flag, path string) (string, error) {
	switch {
	case flag == formatNDJSON || flag == formatCSV:
		return flag, nil
	case flag != "":
		return "", usageError("--format must be ndjson or csv, not %q", flag)
	case path == "-":
		return formatNDJSON, nil
	}
	if format := formatOf(path); format != "" {
		return format, nil
	}
	return "", usageError("the name %q does not tell its format; say --format ndjson or csv", path)
}

// fileRecord is a record as it stands in a file.
type fileRecord struct {
	line   int64  // where it begins, from 1
	offset int64  // of the file's bytes, where it ends
	input  string // its text; of CSV its cells
	reason string // why it cannot be sent; "" if it can

	event  api.NewEvent // one of these
	entity api.NewEntity
}

// recordReader reads the records of a file one after the other.
type recordReader struct {
	next   func() (fileRecord, error)
	makeID func(line int64) string // of a record without an id
	events bool
}

// read is the next record; io.EOF after the last. Any other error ends the file.
func (r *recordReader) read() (fileRecord, error) { return r.next() }

// openRecords reads file, which may be compressed with gzip.
func openRecords(file io.Reader, format string, events bool, makeID func(line int64) string) (*recordReader, error) {
	counted := &countingReader{r: file}
	plain := bufio.NewReaderSize(counted, 64<<10)
	offset := func(read int64) int64 { return read }
	if magic, _ := plain.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		plain = bufio.NewReaderSize(unpacked, 64<<10)
		offset = func(int64) int64 { return counted.n }
	}
	if mark, _ := plain.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		plain.Discard(3) //nolint:errcheck // it was there
	}
	r := &recordReader{makeID: makeID, events: events}
	if format == formatNDJSON {
		r.next = r.ndjson(plain, offset)
		return r, nil
	}
	next, err := r.csv(plain, offset)
	r.next = next
	return r, err
}

// countingReader counts what was read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// ndjson reads a record a line; blank lines are none.
func (r *recordReader) ndjson(in *bufio.Reader, offset func(int64) int64) func() (fileRecord, error) {
	var number, read int64
	return func() (fileRecord, error) {
		for {
			line, length, err := readLine(in)
			if length == 0 && err != nil {
				return fileRecord{}, err
			}
			number, read = number+1, read+length
			rec := fileRecord{line: number, offset: offset(read), input: string(bytes.TrimSpace(line))}
			switch {
			case length > maxRecordBytes:
				rec.input, rec.reason = "", fmt.Sprintf("the line is longer than %d bytes", maxRecordBytes)
			case rec.input == "":
				continue
			default:
				r.fill(&rec, []byte(rec.input))
			}
			return rec, nil
		}
	}
}

// readLine reads a line and tells its length. Of one that is longer than
// maxRecordBytes the text is not all there.
func readLine(in *bufio.Reader) (line []byte, length int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		if length <= maxRecordBytes {
			line = append(line, part...)
		}
		switch {
		case err == nil, err == io.EOF && length > 0:
			return line, length, nil
		case err != bufio.ErrBufferFull:
			return nil, 0, err
		}
	}
}

// recordJSON is a record in JSON, event or entity.
type recordJSON struct {
	ID         *string        `json:"id"`
	Name       *string        `json:"name"`
	Type       *string        `json:"type"`
	EntityID   *string        `json:"entity_id"`
	OccurredAt *string        `json:"occurred_at"`
	Attributes jsontext.Value `json:"attributes"`

	// What exports have and the service sets itself.
	CreatedAt jsontext.Value `json:"created_at"`
	UpdatedAt jsontext.Value `json:"updated_at"`
}

// fill reads the JSON of a record.
func (r *recordReader) fill(rec *fileRecord, text []byte) {
	var v recordJSON
	if err := json.Unmarshal(text, &v, json.RejectUnknownMembers(true)); err != nil {
		rec.reason = reasonOf(err)
		return
	}
	r.take(rec, v)
}

// take makes the event or the entity of what was read, and says what is wrong
// with it in the service's words.
func (r *recordReader) take(rec *fileRecord, v recordJSON) {
	var wrong record.Fields
	if v.ID == nil {
		id := r.makeID(rec.line)
		v.ID = &id
	}
	if v.Attributes.Kind() == 'n' {
		v.Attributes = nil
	}
	if v.Attributes != nil && v.Attributes.Kind() != '{' {
		wrong.Add("attributes", "must be a JSON object")
	}
	var err error
	if r.events {
		if v.Type != nil {
			wrong.Add("type", "is not a field of an event")
		}
		e := api.NewEvent{ID: *v.ID, Name: deref(v.Name), EntityID: deref(v.EntityID), Attributes: record.Attributes(v.Attributes)}
		if v.EntityID != nil {
			wrong.Check("entity_id", record.CheckID(e.EntityID))
		}
		if v.OccurredAt != nil {
			at, err := record.ParseTime(*v.OccurredAt)
			if err != nil {
				wrong.Add("occurred_at", "is "+err.Error())
			}
			e.OccurredAt = &at
		}
		err = event.Event{ID: e.ID, Name: e.Name}.Validate()
		rec.event = e
	} else {
		for field, given := range map[string]*string{"name": v.Name, "entity_id": v.EntityID, "occurred_at": v.OccurredAt} {
			if given != nil {
				wrong.Add(field, "is not a field of an entity")
			}
		}
		e := api.NewEntity{ID: *v.ID, Type: entity.DefaultType, Attributes: record.Attributes(v.Attributes)}
		if v.Type != nil {
			e.Type = *v.Type
		}
		err = entity.Entity{ID: e.ID, Type: e.Type}.Validate()
		rec.entity = e
	}
	var invalid *record.Error
	if errors.As(err, &invalid) {
		wrong = append(wrong, invalid.Fields...)
	}
	if len(wrong) > 0 {
		rec.reason = wrong.Err().Error()
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// reasonOf says why a line is no record.
func reasonOf(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return "it is not one JSON object: " + strings.TrimPrefix(err.Error(), "jsontext: ")
	}
	field := strings.TrimPrefix(string(semantic.JSONPointer), "/")
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return fmt.Sprintf("%s is not a field of a record", field)
	case field == "":
		return "it is not a JSON object"
	}
	return field + " must be a string"
}

// attributePrefix stands before the name of an attribute in a CSV header.
const attributePrefix = "attributes."

// csv reads CSV with a header. Its columns are those of exports: the fields of
// a record, and attributes.<name> for each attribute; or attributes, as JSON.
// An empty cell is nothing.
func (r *recordReader) csv(in io.Reader, offset func(int64) int64) (func() (fileRecord, error), error) {
	bounded := &boundedReader{r: in}
	rows := csv.NewReader(bounded)
	rows.FieldsPerRecord = -1
	header, err := rows.Read()
	if err == io.EOF {
		return nil, errors.New("line 1: there is no header")
	}
	if err != nil {
		return nil, err
	}
	known := []string{"id", "type", "attributes", "created_at", "updated_at"}
	if r.events {
		known = []string{"id", "name", "entity_id", "occurred_at", "attributes", "created_at"}
	}
	for i, column := range header {
		switch {
		case !utf8.ValidString(column):
			return nil, errors.New("line 1: the header must be text in UTF-8")
		case slices.Contains(header[:i], column):
			return nil, fmt.Errorf("line 1: the column %q is there twice", column)
		case strings.HasPrefix(column, attributePrefix):
			if slices.Contains(header, "attributes") {
				return nil, fmt.Errorf("line 1: the columns attributes and %q exclude each other", column)
			}
		case !slices.Contains(known, column):
			return nil, fmt.Errorf("line 1: the column %q is none of %s, %s<name>", column, strings.Join(known, ", "), attributePrefix)
		}
	}
	return func() (fileRecord, error) {
		bounded.n = 0
		cells, err := rows.Read()
		var bad *csv.ParseError
		switch {
		case bounded.n > maxBoundedBytes:
			return fileRecord{}, fmt.Errorf("a record is larger than %d bytes; is a quote left open? %w", maxRecordBytes, err)
		case errors.As(err, &bad):
			return fileRecord{line: int64(bad.StartLine), offset: offset(rows.InputOffset()), reason: bad.Err.Error()}, nil
		case err != nil:
			return fileRecord{}, err
		}
		line, _ := rows.FieldPos(0)
		rec := fileRecord{line: int64(line), offset: offset(rows.InputOffset()), input: csvText(cells)}
		if len(cells) != len(header) {
			rec.reason = fmt.Sprintf("it has %d cells, the header %d", len(cells), len(header))
			return rec, nil
		}
		r.fillCells(&rec, header, cells)
		return rec, nil
	}, nil
}

// maxBoundedBytes is what a CSV reader may read for one record: it reads ahead.
const maxBoundedBytes = maxRecordBytes + 64<<10

// boundedReader fails when a record does not end: encoding/csv keeps all of it.
type boundedReader struct {
	r io.Reader
	n int64 // since the record began
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.n > maxBoundedBytes {
		return 0, errors.New("record too large")
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	return n, err
}

func csvText(cells []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(cells) //nolint:errcheck // a Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// fillCells reads the cells of a record.
func (r *recordReader) fillCells(rec *fileRecord, header, cells []string) {
	var v recordJSON
	fields := map[string]**string{"id": &v.ID, "type": &v.Type, "name": &v.Name, "entity_id": &v.EntityID, "occurred_at": &v.OccurredAt}
	named := []byte{'{'} // the attributes that have columns
	for i, cell := range cells {
		name, isAttribute := strings.CutPrefix(header[i], attributePrefix)
		if cell == "" {
			continue
		}
		if !utf8.ValidString(cell) {
			rec.reason = header[i] + " must be text in UTF-8"
			return
		}
		cell = plainCell(cell)
		switch field := fields[header[i]]; {
		case field != nil:
			*field = &cell
		case header[i] == "attributes":
			v.Attributes = jsontext.Value(cell)
			if !v.Attributes.IsValid() {
				rec.reason = "attributes must be a JSON object"
				return
			}
		case isAttribute:
			if len(named) > 1 {
				named = append(named, ',')
			}
			named, _ = jsontext.AppendQuote(named, name) // of the header, which is UTF-8
			named = append(append(named, ':'), cellValue(cell)...)
		}
	}
	if len(named) > 1 {
		v.Attributes = append(named, '}')
	}
	r.take(rec, v)
}

// plainCell takes away the apostrophe that exports put before what a
// spreadsheet would take for a formula.
func plainCell(cell string) string {
	if rest, ok := strings.CutPrefix(cell, "'"); ok && rest != "" && strings.ContainsRune("=+-@\t\r\n", rune(rest[0])) {
		return rest
	}
	return cell
}

// cellValue is the attribute that a cell holds: a number, true, false, an object
// or a list if it is the JSON of one, otherwise its text.
func cellValue(cell string) jsontext.Value {
	if v := jsontext.Value(cell); v.IsValid() && v.Kind() != '"' && v.Kind() != 'n' && strings.TrimSpace(cell) == cell {
		return v
	}
	text, _ := jsontext.AppendQuote(nil, cell) // it fails for what is not UTF-8
	return text
}
