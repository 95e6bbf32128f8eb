package importfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxRecordBytes is the maximum size of a record in a file. The service's own limit is 256 KB.
const MaxRecordBytes = 1 << 20

// GzipMagic is how a gzip file begins (RFC 1952).
var GzipMagic = [2]byte{0x1f, 0x8b}

// lineReader reads the lines of a file. They end in LF, in CR LF, in any number of CRs and LF, or,
// if the beginning of the file has no LF, in CR.
type lineReader struct {
	in     *bufio.Reader
	number int64        // number of the last line read, from 1
	offset func() int64 // bytes of the file read so far; may include later lines if the file is compressed or decoded
	end    byte         // '\n' or '\r'
	back   []byte       // a line to read again; nil for none
}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", MaxRecordBytes)

const bufferSize = 64 << 10

// open decompresses and decodes the file if necessary, and skips a byte order mark. decode may be
// nil.
func (l *lineReader) open(file io.Reader, decode func(io.Reader) (io.Reader, error)) error {
	counted := &countingReader{r: file}
	l.in = bufio.NewReaderSize(counted, bufferSize)
	l.offset = func() int64 { return counted.n - int64(l.in.Buffered()) - int64(len(l.back)) }
	unpack := func(r io.Reader) {
		l.in = bufio.NewReaderSize(r, bufferSize)
		l.offset = func() int64 { return counted.n }
	}
	if l.begins(string(GzipMagic[:])) {
		unpacked, err := newGzipReader(l.in)
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		unpack(unpacked)
	}
	if l.begins("PK\x03\x04") {
		return errZip
	}
	if decode == nil && (l.begins("\xff\xfe") || l.begins("\xfe\xff")) {
		decode = decodeUTF16
	}
	if decode != nil {
		decoded, err := decode(l.in)
		if err != nil {
			return err
		}
		unpack(decoded)
	}
	if mark := "\xef\xbb\xbf"; l.begins(mark) {
		l.in.Discard(len(mark)) //nolint:errcheck // the mark is already in the buffer
	}
	l.end = '\n'
	for _, size := range []int{1, l.in.Buffered(), bufferSize} { // reads no further than needed: the file may grow
		beginning, _ := l.in.Peek(size)
		if bytes.IndexByte(beginning, '\n') >= 0 {
			return nil
		}
		if size == bufferSize && bytes.IndexByte(beginning, '\r') >= 0 {
			l.end = '\r'
		}
	}
	return nil
}

var errZip = errors.New("it is a zip archive; unpack it, and import the file in it")

func (l *lineReader) begins(prefix string) bool {
	text, _ := l.in.Peek(len(prefix))
	return string(text) == prefix
}

// next returns the next line with its line break, which the last line may lack. Of a line longer
// than MaxRecordBytes, it calls skipped with each piece, if that is not nil, and returns
// errLongLine.
func (l *lineReader) next(skipped func(piece []byte)) (line []byte, err error) {
	if line, l.back = l.back, nil; line != nil {
		l.number++
		return line, nil
	}
	for length := 0; ; {
		part, err := l.in.ReadSlice(l.end)
		if length += len(part); length <= MaxRecordBytes {
			line = append(line, part...)
		} else if skipped != nil {
			skipped(line)
			skipped(part)
			line = nil
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

// unread lets next return the last line again.
func (l *lineReader) unread(line []byte) {
	l.back = line
	l.number--
}

func trimEnd(line string) string {
	return strings.TrimRight(strings.TrimSuffix(line, "\n"), "\r")
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

// gzipReader reads all members of a gzip file. Like gzip and Python, it ignores zeros after them.
type gzipReader struct {
	file *bufio.Reader
	zip  *gzip.Reader
	err  error // that every later Read returns
}

func newGzipReader(file *bufio.Reader) (*gzipReader, error) {
	zip, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	zip.Multistream(false)
	return &gzipReader{file: file, zip: zip}, nil
}

func (g *gzipReader) Read(p []byte) (n int, err error) {
	if g.err != nil {
		return 0, g.err
	}
	if n, g.err = g.zip.Read(p); g.err == io.EOF {
		g.err = g.nextMember()
	}
	return n, g.err
}

// nextMember returns io.EOF after the last member.
func (g *gzipReader) nextMember() error {
	for zeros := false; ; zeros = true {
		next, err := g.file.ReadByte()
		switch {
		case err != nil:
			return err
		case next == 0:
			continue
		case zeros:
			return errors.New("unpack: other data follows the zeros after the compressed data")
		}
		g.file.UnreadByte() //nolint:errcheck // a byte was read
		if err := g.zip.Reset(g.file); err != nil {
			return fmt.Errorf("unpack: other data follows the compressed data: %w", err)
		}
		g.zip.Multistream(false)
		return nil
	}
}
