package exportjob

import (
	"bytes"
	"compress/gzip"
	"fmt"
)

// member is the gzip member that is being written, in memory.
type member struct {
	bytes.Buffer // the compressed bytes
	gzip         *gzip.Writer
	records      int64
	json         []byte // JSON of the latest record; the buffer is reused
}

// newMember returns a member with room for size bytes and the record that exceeds them.
func newMember(size int) *member {
	m := new(member)
	m.Grow(size + size/8)
	m.gzip, _ = gzip.NewWriterLevel(&m.Buffer, gzip.BestSpeed) // cannot fail, because the level is valid
	return m
}

// add writes r to m, through to.
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

// Write compresses b and adds it to the member.
func (m *member) Write(b []byte) (int, error) { return m.gzip.Write(b) }

// flush compresses all that was written, so that Len counts it.
func (m *member) flush() error {
	if err := m.gzip.Flush(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}

// bytes closes the member and returns its content, valid until the next reset. Before, it pads
// the member to size bytes with empty blocks, which decompress to nothing.
func (m *member) bytes(size int) ([]byte, error) {
	for m.Len() < size {
		if err := m.flush(); err != nil {
			return nil, err
		}
	}
	if err := m.gzip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return m.Bytes(), nil
}

// reset starts a new member.
func (m *member) reset() {
	m.Reset()
	m.gzip.Reset(&m.Buffer)
	m.records = 0
}
