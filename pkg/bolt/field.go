package bolt

import (
	"encoding/binary"
	"errors"
	"time"

	"sluice/pkg/record"
)

// fields reads or writes a record field by field. One function per kind of record names its
// fields, for both directions. With JSON, a list would take twice the processor time, and the
// file would be half as large again. A field is a uvarint, which is a time in milliseconds or
// the length of the text that follows.
type fields struct {
	value   []byte // what is left to read, or what has been written
	writing bool
	err     error // of the first field that could not be read
}

var errCut = errors.New("decode record: the value is cut off")

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

// text reads or writes a string or bytes. The result shares no memory with the value, which is
// valid only during its transaction.
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
