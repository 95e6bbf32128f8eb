package bolt

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"sluice/pkg/record"
)

// fields reads or writes a record field by field. Each kind of record has one function for
// reading and writing. JSON would double the processor time of a list and make the file 50%
// larger. A time is stored as a uvarint, in milliseconds. Text is preceded by its length in bytes,
// which is also a uvarint.
type fields struct {
	value   []byte // what is left to read, or what has been written so far
	writing bool
	err     error // why a field could not be read or written
}

var errCut = fmt.Errorf("%w: it is cut off", errDamaged)

func (f *fields) number(n *uint64) {
	if f.writing {
		f.value = binary.AppendUvarint(f.value, *n)
		return
	}
	read, size := binary.Uvarint(f.value)
	if size <= 0 {
		f.value, f.err = nil, errCut
		return
	}
	*n, f.value = read, f.value[size:]
}

// text reads or writes a string or byte slice. What it reads shares no memory with f.value,
// which is valid only during the transaction.
func text[T ~string | ~[]byte](f *fields, s *T) {
	n := uint64(len(*s))
	f.number(&n)
	switch {
	case f.writing:
		f.value = append(f.value, *s...)
	case n > uint64(len(f.value)):
		f.value, f.err = nil, errCut
	case n > 0:
		*s, f.value = T(string(f.value[:n])), f.value[n:]
	}
}

func (f *fields) time(t *record.Time) {
	n := uint64(t.Time().UnixMilli())
	f.number(&n)
	*t = record.TimeOf(time.UnixMilli(int64(n)))
}

func (f *fields) flag(b *bool) {
	var n uint64
	if *b {
		n = 1
	}
	f.number(&n)
	*b = n == 1
}

// members reads or writes members in their order.
func (f *fields) members(members []record.Member) {
	for i := range members {
		switch v := members[i].Value.(type) {
		case *string:
			text(f, v)
		case *record.Attributes:
			text(f, v)
		case *record.Time:
			f.time(v)
		case *int64:
			n := uint64(*v)
			f.number(&n)
			*v = int64(n)
		default:
			if !members[i].Derived() {
				panic("bolt: unknown type of member " + members[i].Name)
			}
		}
	}
}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode ends the value with its checksum, because bbolt has none.
func (t *table[R]) encode(r R) ([]byte, error) {
	f := fields{writing: true}
	t.fields(&f, &r)
	return binary.LittleEndian.AppendUint32(f.value, crc32.Checksum(f.value, castagnoli)), f.err
}

func (t *table[R]) decode(value []byte) (r R, err error) {
	end := len(value) - crc32.Size
	if end < 0 {
		return r, errCut
	}
	if crc32.Checksum(value[:end], castagnoli) != binary.LittleEndian.Uint32(value[end:]) {
		return r, fmt.Errorf("%w: it has another checksum", errDamaged)
	}
	f := fields{value: value[:end]}
	t.fields(&f, &r)
	if f.err == nil && len(f.value) > 0 {
		f.err = fmt.Errorf("%w: it is too long", errDamaged)
	}
	return r, f.err
}
