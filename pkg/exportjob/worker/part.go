package worker

import (
	"bytes"
	"compress/gzip"
	"fmt"
)

// member is a part under way: a gzip member in memory.
type member struct {
	bytes.Buffer // what has been compressed
	gzip         *gzip.Writer
	records      int64
	json         []byte // of the latest record; reused
	flush        bool   // after each record
}

func (w *Worker) newMember() *member {
	m := &member{flush: w.flush}
	m.Grow(w.PartBytes + w.PartBytes/8)                        // the last record may be large; mostly it is not
	m.gzip, _ = gzip.NewWriterLevel(&m.Buffer, gzip.BestSpeed) // a valid level
	return m
}

// add adds a record by to, which writes to m.
func (m *member) add(to recordWriter, r row) (err error) {
	if m.json, err = r.record.AppendJSON(m.json[:0]); err == nil {
		err = to.Write(m.json)
	}
	if err == nil && m.flush {
		err = m.gzip.Flush()
	}
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	m.records++
	return nil
}

// Write compresses b.
func (m *member) Write(b []byte) (int, error) { return m.gzip.Write(b) }

// bytes ends the member, with at least size bytes, and returns it. What is missing
// is filled with empty blocks, which decompress to nothing. The bytes are valid
// until reset.
func (m *member) bytes(size int) ([]byte, error) {
	for m.Len() < size {
		if err := m.gzip.Flush(); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
	}
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
