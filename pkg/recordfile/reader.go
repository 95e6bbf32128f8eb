package recordfile

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"sluice/pkg/record"
)

// MaxRecordBytes is the maximum size of a record in a file. The service's own limit is 256 KB.
const MaxRecordBytes = 1 << 20

// GzipMagic is how a gzip file begins (RFC 1952).
var GzipMagic = [2]byte{0x1f, 0x8b}

type Record struct {
	Line     int64  // number of the first line, from 1; in a JSON file, number of the element
	LastLine int64  // greater than Line only in CSV
	Offset   int64  // how many bytes of the file were read up to the end of the record
	Text     string // bytes of the record without the line break; empty if the record is too long
	JSON     []byte // the record in JSON, not validated if the file is NDJSON; nil if Err is not nil
	Err      error  // why Text cannot be read as a record; otherwise nil
}

// Reader reads records one after another. It is not safe for concurrent use.
type Reader struct {
	lines     lineReader
	delimiter string
	header    []string // column names of a CSV file; "" for a column that is left out
	array     *arrayReader
	read      func() (Record, error)
}

type Layout struct {
	Columns   []string                    // columns that a CSV file may have besides attributes: entity.Columns or event.Columns
	Delimiter string                      // between the cells of a CSV file; a comma if empty
	Rename    func(column string) string  // returns the name to use for a CSV column, or "" to leave the column out; nil keeps the names
	Decode    func(r io.Reader) io.Reader // converts the file to UTF-8; nil if it already is UTF-8
}

// NewReader returns a Reader for a file that may be compressed with gzip and may begin with a
// byte order mark. It fails if the file cannot be decompressed or if a CSV header is invalid.
func NewReader(file io.Reader, format record.Format, layout Layout) (*Reader, error) {
	r := &Reader{delimiter: cmp.Or(layout.Delimiter, ",")}
	if err := r.lines.open(file, layout.Decode); err != nil {
		return nil, err
	}
	switch format {
	case record.CSV:
		r.read = r.readCSV
		return r, r.readHeader(layout)
	case record.JSON:
		r.array = newArrayReader(r.lines.in)
		r.read = r.readJSON
	default:
		r.read = r.readNDJSON
	}
	return r, nil
}

// Read returns the next record, or io.EOF after the last one. If a record is invalid, its Err
// says why, and the next call continues after it. If Read returns any other error, the rest of
// the file cannot be read.
func (r *Reader) Read() (Record, error) { return r.read() }

// HasColumn reports whether the header of a CSV file has the column.
func (r *Reader) HasColumn(name string) bool { return slices.Contains(r.header, name) }

// readNDJSON skips blank lines.
func (r *Reader) readNDJSON() (Record, error) {
	for {
		line, err := r.lines.next()
		rec := Record{Line: r.lines.number, LastLine: r.lines.number, Offset: r.lines.offset()}
		switch object := bytes.TrimSpace(line); {
		case err == errLongLine:
			rec.Err = err
		case err != nil:
			return Record{}, err
		case len(object) == 0:
			continue
		default:
			rec.Text, rec.JSON = trimEnd(string(line)), object
		}
		return rec, nil
	}
}

type lineReader struct {
	in     *bufio.Reader
	number int64        // number of the last line read, from 1
	offset func() int64 // bytes of the file read so far; may include later lines if the file is compressed or decoded
}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", MaxRecordBytes)

// open decompresses and decodes the file if necessary, and skips a byte order mark.
func (l *lineReader) open(file io.Reader, decode func(io.Reader) io.Reader) error {
	counted := &countingReader{r: file}
	l.in = bufio.NewReaderSize(counted, 64<<10)
	l.offset = func() int64 { return counted.n - int64(l.in.Buffered()) }
	unpack := func(r io.Reader) {
		l.in = bufio.NewReaderSize(r, 64<<10)
		l.offset = func() int64 { return counted.n }
	}
	if l.begins(string(GzipMagic[:])) {
		unpacked, err := gzip.NewReader(l.in)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		unpack(unpacked)
	}
	switch {
	case l.begins("PK\x03\x04"):
		return errZip
	case decode != nil:
		unpack(decode(l.in))
	case l.begins("\xff\xfe"), l.begins("\xfe\xff"):
		return errUTF16
	}
	if mark := "\xef\xbb\xbf"; l.begins(mark) {
		l.in.Discard(len(mark)) //nolint:errcheck // the mark is already in the buffer
	}
	return nil
}

var (
	errZip   = errors.New("it is a zip archive, which can be read only from a file, not from standard input or within gzip")
	errUTF16 = errors.New("it begins like text in UTF-16; say that the encoding is utf-16")
)

func (l *lineReader) begins(prefix string) bool {
	text, _ := l.in.Peek(len(prefix))
	return string(text) == prefix
}

// next returns the next line with its line break, which the last line may lack. It skips a
// line longer than MaxRecordBytes and returns errLongLine.
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

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
