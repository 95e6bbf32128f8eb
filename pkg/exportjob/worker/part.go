package worker

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
	flush        bool   // whether to flush the compressor after each record
}

func (w *Worker) newMember() *member {
	m := &member{flush: w.flush}
	// The extra space is for the last record of a part, which makes the part larger than
	// PartBytes.
	m.Grow(w.PartBytes + w.PartBytes/8)
	m.gzip, _ = gzip.NewWriterLevel(&m.Buffer, gzip.BestSpeed) // cannot fail, because the level is valid
	return m
}

// add writes r to m with the given recordWriter.
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

// Write compresses b and adds it to the member.
func (m *member) Write(b []byte) (int, error) { return m.gzip.Write(b) }

// bytes pads the member until it has at least size bytes, then closes it and returns its
// content. The padding is empty blocks, which decompress to nothing. The returned slice is
// valid until the next call of reset.
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

// reset starts a new member.
func (m *member) reset() {
	m.Reset()
	m.gzip.Reset(&m.Buffer)
	m.records = 0
}
