package importfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/pkg/recordfile"
)

// cell is a cell of a CSV file.
type cell struct {
	text   string
	quoted bool
}

// csvReader is not built on encoding/csv, which changes CR LF in cells to LF and does not say
// whether a cell has quotes.
type csvReader struct {
	lines     *lineReader
	delimiter string
	quote     string  // a character; empty if the file has no quotes
	named     int     // how many columns there are, without unnamed ones at the end
	first     *csvRow // a row to return again; nil for none
	headerAt  int64   // line of the header
	blank     int64   // how many rows were skipped because they have no cell that is not empty
}

// csvRow is a row of a CSV file.
type csvRow struct {
	text  []byte // as in the file, with the line break
	line  int64  // number of the first line
	cells []cell
	err   error // the first error; the rest of the row is still read

	quoted strings.Builder // text read so far of a cell whose closing quote is on a later line
	open   bool            // whether a cell still lacks its closing quote
}

var separatorLine = regexp.MustCompile(`^"?sep=(.)"?$`)

// newCSVReader skips a line such as sep=;, which Excel writes and which sets the delimiter unless
// the description does.
func newCSVReader(lines *lineReader, d Description) (*csvReader, error) {
	r := &csvReader{lines: lines, delimiter: d.Delimiter, quote: cmp.Or(d.Quote, `"`), headerAt: int64(d.SkipLines) + 1}
	if d.Quote == NoQuote {
		r.quote = ""
	}
	first, err := lines.next(nil)
	if err == nil {
		if sep := separatorLine.FindStringSubmatch(trimEnd(string(first))); sep == nil {
			lines.unread(first)
		} else {
			r.delimiter = cmp.Or(r.delimiter, sep[1])
		}
	}
	r.delimiter = cmp.Or(r.delimiter, ",")
	switch {
	case err == io.EOF:
		err = nil
	case errors.Is(err, errLongLine):
		err = r.atHeader(errLongRow)
	}
	return r, err
}

// header returns the names of the columns, and "" for one that is left without a name.
func (r *csvReader) header(d Description) (names []string, err error) {
	row, err := r.next()
	if row != nil {
		r.headerAt = row.line
	}
	switch {
	case err == io.EOF && d.NoHeader:
		return nil, nil
	case err == io.EOF:
		return nil, r.atHeader(errors.New("there is no header"))
	case err != nil:
		return nil, err
	case d.NoHeader:
		r.named = len(row.cells)
		for i := range row.cells {
			names = append(names, columnName(i))
		}
		r.first = row
		return names, nil
	case row.err != nil:
		return nil, r.atHeader(row.err)
	}
	if err := checkDelimiter(row.cells, r.delimiter); err != nil {
		return nil, r.atHeader(err)
	}
	for i, c := range row.cells {
		if names = append(names, recordfile.Restore(c.text)); c.text != "" {
			r.named = i + 1
		}
	}
	names = names[:r.named]
	if slices.ContainsFunc(names, func(name string) bool { return !utf8.ValidString(name) }) {
		return nil, r.atHeader(errHeaderText)
	}
	return names, nil
}

var errHeaderText = errors.New("the header must be text in UTF-8; for other text, say which encoding the file has, such as windows-1252")

// atHeader says in which line the error is.
func (r *csvReader) atHeader(err error) error { return fmt.Errorf("line %d: %w", r.headerAt, err) }

// columnName is the name of a column without one. i counts from 0.
func columnName(i int) string { return strconv.Itoa(i + 1) }

// checkDelimiter fails if a header with only one column seems to use another delimiter.
func checkDelimiter(header []cell, delimiter string) error {
	if len(header) > 1 || header[0].quoted {
		return nil
	}
	for _, suspect := range []struct{ delimiter, name string }{{";", "';'"}, {"\t", "tab"}, {"|", "'|'"}, {",", "','"}} {
		if suspect.delimiter != delimiter && strings.Contains(header[0].text, suspect.delimiter) {
			return fmt.Errorf("the header is one column, %q; if %q separates the columns, say that the delimiter is %s", header[0].text, suspect.delimiter, suspect.name)
		}
	}
	return nil
}

var (
	errStrayQuote = errors.New("a cell without quotes contains a quote; put the cell in quotes and double each quote in it, or say that the file has no quotes")
	errAfterQuote = errors.New("text follows the closing quote of a cell; double each quote in a cell with quotes, or say that the file has no quotes")
	errOpenQuote  = errors.New("the closing quote of a cell is missing")
	errLongRow    = fmt.Errorf("the row is larger than %d bytes; is a quote left open?", MaxRecordBytes)
)

// next skips rows without content.
func (r *csvReader) next() (*csvRow, error) {
	if row := r.first; row != nil {
		r.first = nil
		return row, nil
	}
	for {
		row, err := r.row()
		if err != nil || row.err != nil {
			return row, err
		}
		for _, c := range row.cells {
			if c.text != "" || c.quoted {
				return row, nil
			}
		}
		r.blank++
	}
}

func (r *csvReader) row() (*csvRow, error) {
	row := &csvRow{cells: make([]cell, 0, r.named+1)}
	for row.open || row.line == 0 {
		quotes := 0 // in a line that is too long
		line, err := r.lines.next(func(piece []byte) { quotes += r.quotes(piece) })
		row.line = cmp.Or(row.line, r.lines.number)
		switch {
		case err == io.EOF && row.open:
			row.err = cmp.Or(row.err, errOpenQuote)
			return row, nil
		case errors.Is(err, errLongLine), err == nil && len(row.text)+len(line) > MaxRecordBytes:
			return row, r.skip(row, quotes+r.quotes(line))
		case err != nil:
			return nil, err
		}
		if row.text == nil {
			row.text = line
		} else {
			row.text = append(row.text, line...)
		}
		row.add(string(line), r.delimiter, r.quote)
	}
	return row, nil
}

func (r *csvReader) quotes(text []byte) int {
	if r.quote == "" {
		return 0
	}
	return bytes.Count(text, []byte(r.quote))
}

// skip reads the rest of a row that is too long. Quotes come in pairs, so a row ends with the line
// that has made their number even. more is how many quotes follow row.text in the last line.
func (r *csvReader) skip(row *csvRow, more int) error {
	quotes := r.quotes(row.text) + more
	row.text, row.cells, row.err = nil, nil, errLongRow
	for quotes%2 == 1 {
		line, err := r.lines.next(func(piece []byte) { quotes += r.quotes(piece) })
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return err
		}
		quotes += r.quotes(line)
	}
	return nil
}

// add splits the row's next line into cells.
func (r *csvRow) add(line, delimiter, quote string) {
	content := trimEnd(line)
	end := line[len(content):]
	for more := true; more; {
		if !r.open && quote != "" {
			content, r.open = strings.CutPrefix(content, quote)
		}
		if !r.open {
			var c cell
			c.text, content, more = strings.Cut(content, delimiter)
			if quote != "" && strings.Contains(c.text, quote) {
				r.err = cmp.Or(r.err, errStrayQuote)
			}
			r.cells = append(r.cells, c)
			continue
		}
		part, rest, closed := strings.Cut(content, quote)
		r.quoted.WriteString(part)
		if !closed {
			r.quoted.WriteString(end)
			return
		}
		if strings.HasPrefix(rest, quote) { // two quotes stand for one quote
			r.quoted.WriteString(quote)
			content = rest[len(quote):]
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

// fit adapts the number of cells to the header: cells at the end may be empty without a name.
func (r *csvReader) fit(cells []cell) ([]cell, error) {
	n := len(cells)
	for n > r.named && cells[n-1].text == "" {
		n--
	}
	if n != r.named {
		return nil, fmt.Errorf("the row has %d cells, but the header has %d", n, r.named)
	}
	return cells[:n], nil
}
