package recordfile

import (
	"bytes"
	"errors"
	"strings"
)

// The reader of rows is not encoding/csv, which drops carriage returns from
// cells and does not tell whether a cell was quoted.

var (
	errStrayQuote = errors.New(`a " stands in a cell without quotes; put the cell in quotes and double each " in it`)
	errAfterQuote = errors.New(`text follows the closing " of a cell; double each " in a cell with quotes`)
	errOpenQuote  = errors.New(`the closing " of a cell is missing`)
)

// openAfter reports whether a quoted cell goes on behind a line of a CSV file;
// open tells it of the line before. A line that is not well-formed counts as
// the end of its row.
func openAfter(line []byte, open bool) bool {
	for {
		if !open {
			if !bytes.HasPrefix(line, []byte(`"`)) { // skip a cell without quotes
				i := bytes.IndexByte(line, ',')
				if i < 0 {
					return false
				}
				line = line[i+1:]
				continue
			}
			line = line[1:]
		}
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			return true
		}
		// A second quote stands for a quote in the cell; that opens the cell anew.
		line, open = line[i+1:], false
	}
}

// splitRow returns the cells of a row, which has no line end of its own.
func splitRow(row string) (cells []cell, err error) {
	for more := true; more; {
		var c cell
		if strings.HasPrefix(row, `"`) {
			c, row, err = cutQuoted(row[1:])
			if err != nil {
				return nil, err
			}
			if row != "" && row[0] != ',' {
				return nil, errAfterQuote
			}
			row, more = strings.CutPrefix(row, ",")
		} else {
			c.text, row, more = strings.Cut(row, ",")
			if strings.Contains(c.text, `"`) {
				return nil, errStrayQuote
			}
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// cutQuoted returns the cell whose opening quote row follows, and what is
// behind its closing quote.
func cutQuoted(row string) (c cell, rest string, err error) {
	var text strings.Builder
	for {
		part, rest, closed := strings.Cut(row, `"`)
		if !closed {
			return cell{}, "", errOpenQuote
		}
		text.WriteString(part)
		if !strings.HasPrefix(rest, `"`) {
			return cell{text: text.String(), quoted: true}, rest, nil
		}
		text.WriteByte('"')
		row = rest[1:]
	}
}
