package exportjob

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"sluice/pkg/record"
)

// gzipHeader begins a gzip member (RFC 1952, section 2.3): deflate, no flags, no time, unknown
// operating system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// checksum is what the trailer of a gzip member says about the uncompressed content.
type checksum struct {
	CRC  uint32 `json:"crc"`
	Size uint32 `json:"size"` // modulo 2^32
}

// part holds, in memory, the part of a file that a run is writing. All parts of a file form one
// gzip member, because browsers ignore everything after the first member.
type part struct {
	bytes.Buffer // compressed
	deflate      *flate.Writer
	sum          checksum // checksum of the file so far, including earlier parts
	records      int64
	json         []byte // JSON of the latest record; the buffer is reused
}

// newPart returns a part with room for size bytes and for the page that exceeds them. If first is
// true, the part begins the file. Otherwise, it continues a file whose checksum so far is sum.
func newPart(size int, first bool, sum checksum) *part {
	p := &part{sum: sum}
	p.Grow(size + record.MaxPageBytes)
	if first {
		p.WriteString(gzipHeader)
	}
	p.deflate, _ = flate.NewWriter(&p.Buffer, flate.BestSpeed) // fails only if the level is invalid
	return p
}

// add writes r to p through w, which determines the format.
func (p *part) add(w recordWriter, r row) (err error) {
	if p.json, err = r.record.AppendJSON(p.json[:0]); err == nil {
		err = w.Write(p.json)
	}
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	p.records++
	return nil
}

// Write compresses b into the part.
func (p *part) Write(b []byte) (int, error) {
	p.sum.CRC = crc32.Update(p.sum.CRC, crc32.IEEETable, b)
	p.sum.Size += uint32(len(b))
	return p.deflate.Write(b)
}

// flush compresses everything written so far, so that Len counts it, and ends at a byte
// boundary.
func (p *part) flush() error {
	if err := p.deflate.Flush(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}

// content returns the bytes of the part, valid until the next reset. The last part ends the
// file. Any other part is padded to size bytes with empty blocks, which decompress to nothing.
func (p *part) content(size int, last bool) ([]byte, error) {
	if last {
		return p.end()
	}
	for first := true; first || p.Len() < size; first = false {
		if err := p.flush(); err != nil {
			return nil, err
		}
	}
	return p.Bytes(), nil
}

func (p *part) end() ([]byte, error) {
	if err := p.deflate.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	trailer := binary.LittleEndian.AppendUint32(nil, p.sum.CRC)
	p.Buffer.Write(binary.LittleEndian.AppendUint32(trailer, p.sum.Size))
	return p.Bytes(), nil
}

// reset starts the next part, and keeps the checksum of the file so far.
func (p *part) reset() {
	p.Reset()
	p.deflate.Reset(&p.Buffer)
	p.records = 0
}
