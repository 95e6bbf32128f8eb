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

// sliceBytes is how much of a file is read at once.
const sliceBytes = 1 << 20

// file is the chosen file, or the only file in the chosen zip archive.
type file struct {
	blob
	entry *zip.File // nil if the file is not a zip archive
	sum   string    // SHA-256 of the chosen file; empty until it is known
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
	return bufio.NewReaderSize(io.NewSectionReader(f.blob, 0, f.size), sliceBytes)
}

// seed is the seed of ids: the SHA-256 of the file, as in "sluice import".
func (f *file) seed() (string, error) {
	if f.sum != "" {
		return f.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f.raw()); err != nil {
		return "", err
	}
	f.sum = hex.EncodeToString(hash.Sum(nil))
	return f.sum, nil
}
