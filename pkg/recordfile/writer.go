package recordfile

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice/pkg/record"
)

// attributePrefix distinguishes attributes from other members in a header.
const attributePrefix = "attributes."

// NDJSONWriter writes one record per line, without buffering.
type NDJSONWriter struct {
	w    io.Writer
	line []byte
}

func NewNDJSONWriter(w io.Writer) *NDJSONWriter { return &NDJSONWriter{w: w} }

// Write writes a JSON object, which must not contain line breaks, as one line.
func (w *NDJSONWriter) Write(object []byte) error {
	w.line = append(append(w.line[:0], object...), '\n')
	_, err := w.w.Write(w.line)
	return err
}

// CSVWriter writes lines that end in CR LF, without buffering. Unlike encoding/csv, it does
// not change line breaks in cells.
type CSVWriter struct {
	w            io.Writer
	keepFormulas bool
	header       []cell
	column       map[string]int // index of each column, by name
	cells        []cell
	line         []byte
}

// NewCSVWriter returns a writer with a column for each member in columns (record.Columns) and for
// each attribute. With keepFormulas, it changes formulas only if they
// already begin with an apostrophe.
func NewCSVWriter(w io.Writer, columns, attributes []string, keepFormulas bool) *CSVWriter {
	c := &CSVWriter{w: w, keepFormulas: keepFormulas, column: make(map[string]int)}
	columns = slices.Clone(columns)
	for _, name := range attributes {
		columns = append(columns, attributePrefix+name)
	}
	for i, column := range columns {
		c.column[column] = i
		c.header = append(c.header, cell{text: column})
	}
	c.cells = make([]cell, len(c.header))
	return c
}

// WriteHeader writes the column names as the first line.
func (w *CSVWriter) WriteHeader() error { return w.writeLine(w.header) }

// Write writes a JSON object as one row.
func (w *CSVWriter) Write(object []byte) error {
	clear(w.cells)
	members, err := record.Pairs(object)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	for _, m := range members {
		if m.Name == "attributes" {
			err = w.setAttributes(m.Value)
		} else if i, ok := w.column[m.Name]; ok {
			w.cells[i], err = fieldCell(m.Value)
		}
		if err != nil {
			return fmt.Errorf("write record: %s: %w", m.Name, err)
		}
	}
	return w.writeLine(w.cells)
}

func (w *CSVWriter) setAttributes(attributes []byte) error {
	members, err := record.Pairs(attributes)
	for _, m := range members {
		if i, ok := w.column[attributePrefix+m.Name]; ok && err == nil {
			w.cells[i], err = attributeCell(m.Value)
		}
	}
	return err
}

func (w *CSVWriter) writeLine(cells []cell) error {
	w.line = w.line[:0]
	for i, c := range cells {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		text := neutralize(c.text, w.keepFormulas)
		if c.quoted || strings.ContainsAny(text, "\",;\t\r\n") {
			text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
		}
		w.line = append(w.line, text...)
	}
	w.line = append(w.line, "\r\n"...)
	_, err := w.w.Write(w.line)
	return err
}
