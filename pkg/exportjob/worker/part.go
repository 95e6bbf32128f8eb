package worker

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// member is a part under way: a gzip member in memory.
type member struct {
	bytes.Buffer // what has been compressed
	gzip         compressor
	records      int64
	json         []byte // of the latest record; reused
}

// compressor is a *gzip.Writer.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

func fastGzip(w io.Writer) compressor {
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a valid level
	return z
}

func newMember(size int, compress func(io.Writer) compressor) *member {
	m := new(member)
	m.Grow(size + size/8) // the last record may be large; mostly it is not
	m.gzip = compress(&m.Buffer)
	return m
}

// add adds a record by to, which writes to m.
func (m *member) add(to recordWriter, r row) (err error) {
	if m.json, err = r.record.AppendJSON(m.json[:0]); err == nil {
		err = to.Write(m.json)
	}
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	m.records++
	return nil
}

// Write compresses b.
func (m *member) Write(b []byte) (int, error) { return m.gzip.Write(b) }

// bytes ends the member and returns it. The bytes are valid until reset.
func (m *member) bytes() ([]byte, error) {
	if err := m.gzip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return m.Bytes(), nil
}

// reset begins the next member.
func (m *member) reset() {
	m.Reset()
	m.gzip.Reset(&m.Buffer)
	m.records = 0
}
