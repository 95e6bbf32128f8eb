package recordfile

import (
	"errors"
	"fmt"
	"io"
)

// Count reads an unpacked file that an NDJSONWriter or a CSVWriter wrote to its
// end and returns how many records it has. It fails if one of them is not whole.
func Count(file io.Reader, format Format) (records int64, err error) {
	r := new(Reader)
	if err := r.lines.open(file); err != nil {
		return 0, err
	}
	if format == NDJSON {
		return r.countLines()
	}
	columns := 0
	for records = -1; ; records++ { // the header is not a record
		row, line, err := r.nextRow()
		switch {
		case err == io.EOF && records < 0:
			return 0, errNoHeader
		case err == io.EOF:
			return records, nil
		case err != nil:
			return records, err
		}
		cells, err := splitRow(row)
		if err == nil && columns > 0 && len(cells) != columns {
			err = fmt.Errorf("it has %d cells, the header %d", len(cells), columns)
		}
		if err != nil {
			return records, fmt.Errorf("line %d: %w", line, err)
		}
		columns = len(cells)
	}
}

func (r *Reader) countLines() (records int64, err error) {
	for {
		line, err := r.lines.next()
		switch {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return records, err
		case line[len(line)-1] != '\n':
			return records, errors.New("its last line has no end")
		}
		records++
	}
}
