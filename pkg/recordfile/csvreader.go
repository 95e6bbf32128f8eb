package recordfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// readHeader reads the header and checks it. columns are those that it may have
// besides attributes.
func (r *Reader) readHeader(columns []string) error {
	row, _, err := r.nextRow()
	if err == io.EOF {
		return errors.New("line 1: there is no header")
	}
	if err != nil {
		return err
	}
	cells, err := splitRow(row)
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	for _, c := range cells {
		r.header = append(r.header, restore(c.text))
	}
	known := append(slices.Clone(columns), "attributes")
	for i, column := range r.header {
		switch {
		case !utf8.ValidString(column):
			return errors.New("line 1: the header must be text in UTF-8")
		case slices.Contains(r.header[:i], column):
			return fmt.Errorf("line 1: the column %q is there twice", column)
		case strings.HasPrefix(column, attributePrefix):
			if slices.Contains(r.header, "attributes") {
				return fmt.Errorf("line 1: the columns attributes and %q exclude each other", column)
			}
		case !slices.Contains(known, column):
			return fmt.Errorf("line 1: the column %q is none of %s, %s<name>", column, strings.Join(known, ", "), attributePrefix)
		}
	}
	return nil
}

// nextRow returns the text of the next row that is not blank, without its end,
// and the line at which it begins.
func (r *Reader) nextRow() (row string, line int64, err error) {
	var text []byte
	for open := false; open || len(text) == 0; {
		next, err := r.lines.next()
		switch {
		case err == io.EOF && open:
			return string(text), line, nil // splitRow says what is missing
		case err == errLongLine || len(text)+len(next) > MaxRecordBytes:
			return "", 0, fmt.Errorf("a record is larger than %d bytes; is a quote left open?", MaxRecordBytes)
		case err != nil:
			return "", 0, err
		}
		if !open {
			line = r.lines.number
			if len(bytes.TrimRight(next, "\r\n")) == 0 {
				continue
			}
		}
		text = append(text, next...)
		open = openAfter(next, open)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), line, nil
}

// readCSV returns the record of the next row.
func (r *Reader) readCSV() (Record, error) {
	row, line, err := r.nextRow()
	if err != nil {
		return Record{}, err
	}
	rec := Record{Line: line, Offset: r.lines.offset(), Text: row}
	cells, err := splitRow(row)
	if err == nil && len(cells) != len(r.header) {
		err = fmt.Errorf("it has %d cells, the header %d", len(cells), len(r.header))
	}
	if err == nil {
		rec.JSON, err = r.object(cells)
	}
	rec.Err = err
	return rec, nil
}

// object returns the JSON object of a row.
func (r *Reader) object(cells []cell) ([]byte, error) {
	var members, attributes []byte
	for i, c := range cells {
		column := r.header[i]
		if !utf8.ValidString(c.text) {
			return nil, fmt.Errorf("%s must be text in UTF-8", column)
		}
		c.text = restore(c.text)
		switch name, isAttribute := strings.CutPrefix(column, attributePrefix); {
		case c.text == "" && !(isAttribute && c.quoted):
		case isAttribute:
			attributes = appendName(attributes, name)
			attributes = appendAttribute(attributes, c)
		case column == "attributes":
			if !jsontext.Value(c.text).IsValid() {
				return nil, errors.New("attributes must be a JSON object")
			}
			members = append(appendName(members, column), c.text...)
		default:
			members = appendName(members, column)
			members, _ = jsontext.AppendQuote(members, c.text) // which is UTF-8
		}
	}
	if attributes != nil {
		members = append(append(appendName(members, "attributes"), attributes...), '}')
	}
	if members == nil {
		return []byte("{}"), nil
	}
	return append(members, '}'), nil
}

// appendName appends the name of the next member of an object, and the
// beginning of the object if b is empty.
func appendName(b []byte, name string) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	b, _ = jsontext.AppendQuote(b, name) // which is UTF-8
	return append(b, ':')
}
