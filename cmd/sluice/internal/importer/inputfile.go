package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"sluice/pkg/importfile"
)

// work identifies an import in its journal.
type work struct {
	importfile.Description
	Size   int64  `json:"size_bytes"` // bytes to import, from the beginning of the file
	SHA256 string `json:"sha256"`     // of those bytes
	Whole  bool   `json:"whole,omitempty"`
}

// newWork describes an import of the file's current content.
func newWork(o Options, file inputFile) (w work, err error) {
	w = work{Description: o.Description, Whole: o.Whole}
	if w.Size, err = file.size(); err == nil {
		w.SHA256, err = file.hash(w.Size)
	}
	return w, err
}

// includes reports whether the file still begins with the bytes that an earlier import covers.
func (w work) includes(earlier work, file inputFile) (bool, error) {
	if w.Size < earlier.Size {
		return false, nil
	}
	sum, err := file.hash(earlier.Size)
	return sum == earlier.SHA256, err
}

// sameOptions reports whether this import and an earlier one turn a file into the same records.
func (w work) sameOptions(earlier work) bool {
	return w.Whole == earlier.Whole && reflect.DeepEqual(w.Description, earlier.Description)
}

// inputFile is a file to which other programs may append.
type inputFile struct{ *os.File }

func (f inputFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// hash returns the SHA-256 of the first n bytes, in hexadecimal.
func (f inputFile) hash(n int64) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, n)); err != nil {
		return "", fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// splitsLine reports whether the first n bytes end within a line. They never do in a
// compressed file, to which programs append only whole gzip members.
func (f inputFile) splitsLine(n int64) (bool, error) {
	var magic, around [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || magic == importfile.GzipMagic || n == 0 {
		return false, ignoreEOF(err)
	}
	if _, err := f.ReadAt(around[:], n-1); err != nil {
		return false, ignoreEOF(err)
	}
	return around[0] != '\n' && around[1] != '\n' && around[1] != '\r', nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// errSplitLine means that the last line was still being written when the import began.
var errSplitLine = errors.New("its last line was incomplete when this import began")

// part returns a reader of the first n bytes. If they end within a line, the reader ends with
// errSplitLine instead of io.EOF, because that line must not be imported.
func (f inputFile) part(n int64) io.Reader {
	return io.MultiReader(io.NewSectionReader(f, 0, n), readerFunc(func([]byte) (int, error) {
		split, err := f.splitsLine(n)
		switch {
		case err != nil:
			return 0, err
		case split:
			return 0, errSplitLine
		}
		return 0, io.EOF
	}))
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
