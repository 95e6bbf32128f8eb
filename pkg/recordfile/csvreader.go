package recordfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func (r *Reader) readHeader(layout Layout) error {
	row, err := r.nextRow()
	switch {
	case err == io.EOF:
		return errors.New("line 1: there is no header")
	case err != nil:
		return err
	case row.err != nil:
		return fmt.Errorf("line 1: %w", row.err)
	}
	if err := checkDelimiter(row.cells); err != nil {
		return err
	}
	for _, c := range row.cells {
		name := restore(c.text)
		if !utf8.ValidString(name) {
			return errors.New("line 1: the header must be text in UTF-8; for other text, say which encoding the file has, such as windows-1252")
		}
		if layout.Rename != nil {
			name = layout.Rename(name)
		}
		r.header = append(r.header, name)
	}
	known := append(slices.Clone(layout.Columns), "attributes")
	for i, column := range r.header {
		switch {
		case column == "" && layout.Rename != nil:
		case slices.Contains(r.header[:i], column):
			return fmt.Errorf("line 1: the column %q occurs twice", column)
		case strings.HasPrefix(column, attributePrefix):
			if slices.Contains(r.header, "attributes") {
				return fmt.Errorf("line 1: the header must not have both the column attributes and the column %q", column)
			}
		case !slices.Contains(known, column):
			return fmt.Errorf("line 1: the column %q is unknown; the known columns are %s, %s<name>; say what it becomes, such as %s",
				column, strings.Join(known, ", "), attributePrefix, attributePrefix+column)
		}
	}
	return nil
}

// checkDelimiter fails if a header with only one column seems to use another delimiter.
func checkDelimiter(header []cell) error {
	if len(header) > 1 || header[0].quoted {
		return nil
	}
	for _, suspect := range []struct{ delimiter, argument string }{{";", "';'"}, {"\t", "tab"}, {"|", "'|'"}, {",", "','"}} {
		if strings.Contains(header[0].text, suspect.delimiter) {
			return fmt.Errorf("line 1: the header is one column, %q; if %q separates the columns, say that the delimiter is %s", header[0].text, suspect.delimiter, suspect.argument)
		}
	}
	return nil
}

// row is not read with encoding/csv, which changes CR LF in cells to LF and does not say
// whether a cell has quotes.
type row struct {
	text  []byte // as in the file, with the line break
	line  int64  // number of the first line
	cells []cell
	err   error // the first error; the rest of the row is still read

	quoted strings.Builder // text read so far of a cell whose closing quote is on a later line
	open   bool            // whether a cell still lacks its closing quote
}

var (
	errStrayQuote = errors.New(`a cell without quotes contains a "; put the cell in quotes and double each " in it`)
	errAfterQuote = errors.New(`text follows the closing " of a cell; double each " in a cell with quotes`)
	errOpenQuote  = errors.New(`the closing " of a cell is missing`)
)

// nextRow skips blank rows.
func (r *Reader) nextRow() (*row, error) {
	next := new(row)
	for next.open || len(next.text) == 0 {
		line, err := r.lines.next()
		switch {
		case err == io.EOF && next.open:
			next.err = cmp.Or(next.err, errOpenQuote)
			return next, nil
		case err == errLongLine || len(next.text)+len(line) > MaxRecordBytes:
			return nil, fmt.Errorf("the row that begins in line %d is larger than %d bytes; is a quote left open?", cmp.Or(next.line, r.lines.number), MaxRecordBytes)
		case err != nil:
			return nil, err
		}
		if !next.open {
			next.line = r.lines.number
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				continue
			}
		}
		next.text = append(next.text, line...)
		next.add(string(line), r.delimiter)
	}
	return next, nil
}

// add splits the row's next line into cells.
func (r *row) add(line, delimiter string) {
	content := trimEnd(line)
	end := line[len(content):]
	for more := true; more; {
		if !r.open {
			content, r.open = strings.CutPrefix(content, `"`)
		}
		if !r.open {
			var c cell
			c.text, content, more = strings.Cut(content, delimiter)
			if strings.Contains(c.text, `"`) {
				r.err = cmp.Or(r.err, errStrayQuote)
			}
			r.cells = append(r.cells, c)
			continue
		}
		part, rest, closed := strings.Cut(content, `"`)
		r.quoted.WriteString(part)
		if !closed {
			r.quoted.WriteString(end)
			return
		}
		if strings.HasPrefix(rest, `"`) { // two quotes stand for one quote
			r.quoted.WriteByte('"')
			content = rest[1:]
			continue
		}
		r.cells = append(r.cells, cell{text: r.quoted.String(), quoted: true})
		r.quoted.Reset()
		r.open = false
		if part, content, more = strings.Cut(rest, delimiter); part != "" {
			r.err = cmp.Or(r.err, errAfterQuote)
		}
	}
}

func trimEnd(line string) string {
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
}

func (r *Reader) readCSV() (Record, error) {
	row, err := r.nextRow()
	if err != nil {
		return Record{}, err
	}
	rec := Record{Line: row.line, LastLine: r.lines.number, Offset: r.lines.offset(), Text: trimEnd(string(row.text)), Err: row.err}
	if rec.Err == nil && len(row.cells) != len(r.header) {
		rec.Err = fmt.Errorf("the row has %d cells, but the header has %d", len(row.cells), len(r.header))
	}
	if rec.Err == nil {
		rec.JSON, rec.Err = r.object(row.cells)
	}
	return rec, nil
}

func (r *Reader) object(cells []cell) ([]byte, error) {
	var members, attributes []byte
	for i, c := range cells {
		column := r.header[i]
		if column == "" {
			continue
		}
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
			members, _ = jsontext.AppendQuote(members, c.text) // c.text is UTF-8
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

// appendName appends the name of the next member of an object. If b is empty, it begins the
// object.
func appendName(b []byte, name string) []byte {
	if len(b) == 0 {
		b = append(b, '{')
	} else {
		b = append(b, ',')
	}
	b, _ = jsontext.AppendQuote(b, name) // name is UTF-8
	return append(b, ':')
}
