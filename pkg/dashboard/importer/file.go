//go:build js

package main

import (
	"archive/zip"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"sluice/pkg/importfile"
)

// file is the chosen file, or the only file in the chosen zip archive.
type file struct {
	blob
	entry *zip.File // nil if the file is not a zip archive
	sum   string    // SHA-256 of the chosen file; empty until an id is needed

	unreadable error // from hashing the file
}

func openFile(b blob) (*file, error) {
	entry, err := importfile.ZipEntry(b, b.size)
	return &file{blob: b, entry: entry}, err
}

// content returns a reader of the file to import, and how many bytes it has.
func (f *file) content() (io.Reader, int64, error) {
	if f.entry != nil {
		r, err := f.entry.Open()
		return r, int64(f.entry.UncompressedSize64), err
	}
	return f.raw(), f.size, nil
}

func (f *file) raw() io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(f.blob, 0, f.size), 1<<20)
}

// id returns the id of a record that has none: it depends on the SHA-256 of the chosen file, as in
// "sluice import". The file is hashed when the first id is needed.
func (f *file) id(line int64) string {
	if f.sum == "" && f.unreadable == nil {
		hash := sha256.New()
		_, f.unreadable = io.Copy(hash, f.raw())
		f.sum = hex.EncodeToString(hash.Sum(nil))
	}
	return importfile.SeededID(f.sum, line)
}
