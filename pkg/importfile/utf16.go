package importfile

import (
	"bufio"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Reader reads UTF-16 as UTF-8. U+FFFD replaces what is not text.
type utf16Reader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	rest  []byte // UTF-8 that the caller had no room for
}

// decodeUTF16 takes the byte order from the mark; without one, it is little-endian, as in the
// Encoding Standard.
func decodeUTF16(r io.Reader) (io.Reader, error) { return newUTF16Reader(r, binary.LittleEndian), nil }

func newUTF16Reader(r io.Reader, order binary.ByteOrder) *utf16Reader {
	u := &utf16Reader{in: bufio.NewReader(r), order: order}
	switch mark, _ := u.in.Peek(2); string(mark) {
	case "\xff\xfe":
		u.order = binary.LittleEndian
	case "\xfe\xff":
		u.order = binary.BigEndian
	}
	return u
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.rest) < len(p) {
		first, err := u.unit()
		if err != nil {
			if len(u.rest) > 0 && err == io.EOF {
				break
			}
			return 0, err
		}
		r := rune(first)
		if utf16.IsSurrogate(r) {
			second, _ := u.in.Peek(2)
			r = utf8.RuneError
			if len(second) == 2 {
				if r = utf16.DecodeRune(rune(first), rune(u.order.Uint16(second))); r != utf8.RuneError {
					u.in.Discard(2) //nolint:errcheck // both bytes are in the buffer
				}
			}
		}
		u.rest = utf8.AppendRune(u.rest, r)
	}
	n := copy(p, u.rest)
	u.rest = append(u.rest[:0], u.rest[n:]...)
	return n, nil
}

// unit returns U+FFFD for a byte that is left over at the end.
func (u *utf16Reader) unit() (uint16, error) {
	var b [2]byte
	switch n, err := io.ReadFull(u.in, b[:]); {
	case n == 1:
		return utf8.RuneError, nil
	case err != nil:
		return 0, err
	}
	return u.order.Uint16(b[:]), nil
}
