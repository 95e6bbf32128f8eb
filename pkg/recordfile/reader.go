package recordfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxRecordBytes is the most bytes of one record in a file. The service accepts
// 256 KB.
const MaxRecordBytes = 1 << 20

// Record is a record as it stands in a file.
type Record struct {
	Line   int64  // where it begins, from 1
	Offset int64  // bytes of the file that were read up to its end
	Text   string // as it stands in the file, without the line end; "" if it is too long
	JSON   []byte // the record as JSON; of NDJSON not checked yet
	Err    error  // why it cannot be a record; JSON is nil then
}

// Reader reads the records of a file one after the other. It is not safe for
// concurrent use.
type Reader struct {
	lines  lineReader
	header []string // columns of a CSV file
	read   func() (Record, error)
}

// NewReader returns a Reader of a file in a format, which may be compressed with
// gzip and may begin with a byte order mark. columns are the members of a record
// other than attributes (entity.Columns, event.Columns) that a CSV file may have
// columns for.
func NewReader(file io.Reader, format Format, columns []string) (*Reader, error) {
	r := new(Reader)
	if err := r.lines.open(file); err != nil {
		return nil, err
	}
	if format == CSV {
		r.read = r.readCSV
		return r, r.readHeader(columns)
	}
	r.read = r.readNDJSON
	return r, nil
}

// Read returns the next record. The error is io.EOF after the last one; any
// other error means that the rest of the file cannot be read.
func (r *Reader) Read() (Record, error) { return r.read() }

// readNDJSON returns the record of the next line that is not blank.
func (r *Reader) readNDJSON() (Record, error) {
	for {
		line, err := r.lines.next()
		rec := Record{Line: r.lines.number, Offset: r.lines.offset()}
		switch line = bytes.TrimSpace(line); {
		case err == errLongLine:
			rec.Err = err
		case err != nil:
			return Record{}, err
		case len(line) == 0:
			continue
		default:
			rec.Text, rec.JSON = string(line), line
		}
		return rec, nil
	}
}

// lineReader reads a file line by line.
type lineReader struct {
	in     *bufio.Reader
	number int64        // of the line that was read last, from 1
	offset func() int64 // bytes of the file up to the end of that line, at least
}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", MaxRecordBytes)

// open begins to read file: unpacked, and behind a byte order mark.
func (l *lineReader) open(file io.Reader) error {
	counted := &countingReader{r: file}
	l.in = bufio.NewReaderSize(counted, 64<<10)
	if magic, _ := l.in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(l.in)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		l.in = bufio.NewReaderSize(unpacked, 64<<10)
		l.offset = func() int64 { return counted.n }
	} else {
		l.offset = func() int64 { return counted.n - int64(l.in.Buffered()) }
	}
	if mark, _ := l.in.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		l.in.Discard(3) //nolint:errcheck // it was there
	}
	return nil
}

// next returns the next line with its end, which the last one may lack. The
// error is errLongLine for a line of more than MaxRecordBytes, which is skipped.
func (l *lineReader) next() (line []byte, err error) {
	for length := 0; ; {
		part, err := l.in.ReadSlice('\n')
		if length += len(part); length <= MaxRecordBytes {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (err != io.EOF || length == 0):
			return nil, err
		}
		l.number++
		if length > MaxRecordBytes {
			return nil, errLongLine
		}
		return line, nil
	}
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
