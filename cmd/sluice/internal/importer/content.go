package importer

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"sluice/pkg/record"
)

type content struct {
	io.Reader
	size  int64        // in bytes; 0 if unknown
	check func() error // returns errChanged if the file changed while it was read; nil for standard input
}

var errChanged = errors.New("the file changed while it was read")

// content returns the part of the file that w imports. For a zip archive, that is the archived
// file.
func (f inputFile) content(w work) (content, error) {
	entry, err := f.entry(w.Size)
	if err != nil {
		return content{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	check := func(sum string, err error) error {
		if err == nil && sum != w.SHA256 {
			err = errChanged
		}
		return err
	}
	if entry == nil {
		hash := sha256.New()
		in := io.TeeReader(f.part(w.Size), hash)
		return content{in, w.Size, func() error { return check(hex.EncodeToString(hash.Sum(nil)), nil) }}, nil
	}
	in, err := entry.Open()
	return content{in, int64(entry.UncompressedSize64), func() error { return check(f.hash(w.Size)) }}, err
}

// growable reports whether an import can continue with data that is appended to the file
// later.
func growable(o Options, file inputFile) bool {
	zipped, err := file.isZip()
	return err == nil && !zipped && o.Format != record.JSON && o.Encoding == ""
}

func (f inputFile) isZip() (bool, error) {
	var magic [4]byte
	_, err := f.ReadAt(magic[:], 0)
	return bytes.Equal(magic[:], []byte("PK\x03\x04")), ignoreEOF(err)
}

// entry returns the only file in a zip archive, or nil if f is not a zip archive.
func (f inputFile) entry(size int64) (*zip.File, error) {
	if zipped, err := f.isZip(); err != nil || !zipped {
		return nil, err
	}
	archive, err := zip.NewReader(f, size)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	var files []*zip.File
	var names []string
	for _, file := range archive.File {
		if !file.FileInfo().IsDir() && !isAppleDouble(file.Name) {
			files, names = append(files, file), append(names, file.Name)
		}
	}
	switch {
	case len(files) != 1:
		return nil, fmt.Errorf("the archive has %d files, but must have one: unpack it, and import each file (%s)", len(files), record.Shorten(strings.Join(names, ", ")))
	case files[0].Flags&1 != 0:
		return nil, errors.New("the archive is encrypted: unpack it, and import the file in it")
	}
	return files[0], nil
}

// isAppleDouble reports whether macOS added the file to the archive.
func isAppleDouble(name string) bool {
	return strings.HasPrefix(name, "__MACOSX/") || path.Base(name) == ".DS_Store"
}

// NameIn returns the name of the only file in a zip archive.
func NameIn(archive string) (string, error) {
	file, err := os.Open(archive)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // the file is only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	entry, err := inputFile{file}.entry(info.Size())
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", archive, err)
	case entry == nil:
		return "", fmt.Errorf("%s is not a zip archive", archive)
	}
	return entry.Name, nil
}
