package importfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// arrayReader reads the elements of a JSON array, or a sequence of objects.
type arrayReader struct {
	json  *jsontext.Decoder
	file  io.Reader
	room  int   // how many more bytes may be read for the next element
	count int64 // number of elements read so far
}

var errLongElement = fmt.Errorf("an element is longer than %d bytes; the file must be an array of records, not an object with an array in it", MaxRecordBytes)

func newArrayReader(file io.Reader) *arrayReader {
	r := &arrayReader{file: file}
	// Duplicate names and invalid UTF-8 are rejected later, record by record.
	r.json = jsontext.NewDecoder(readerFunc(r.fill), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return r
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// fill supplies bytes to the decoder, which reads ahead as far as its buffer allows.
func (r *arrayReader) fill(p []byte) (int, error) {
	if r.room <= 0 {
		return 0, errLongElement
	}
	n, err := r.file.Read(p[:min(len(p), r.room)])
	r.room -= n
	return n, err
}

// next returns io.EOF after the last element.
func (r *arrayReader) next() (jsontext.Value, error) {
	r.room = 2 * MaxRecordBytes
	for r.json.StackDepth() == 0 && r.json.PeekKind() == '[' || r.json.PeekKind() == ']' {
		if _, err := r.json.ReadToken(); err != nil {
			return nil, err
		}
	}
	value, err := r.json.ReadValue()
	switch syntax := (*jsontext.SyntacticError)(nil); {
	case err == io.EOF:
		return nil, io.EOF
	case errors.Is(err, errLongElement):
		return nil, errLongElement
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("after element %d, byte %d: %w", r.count, syntax.ByteOffset, syntax.Err)
	case err != nil:
		return nil, err
	}
	r.count++
	return value, nil
}
