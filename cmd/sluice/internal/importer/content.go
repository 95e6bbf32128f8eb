package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

type content struct {
	io.Reader
	name  string       // of the file, or of the archived file
	size  int64        // in bytes; 0 if unknown
	check func() error // returns errChanged if the file changed while it was read
}

var errChanged = errors.New("the file changed while it was read")

// content returns the part of the file that w imports. For a zip archive, that is the archived
// file.
func (f inputFile) content(w work) (content, error) {
	entry, err := importfile.ZipEntry(f, w.Size)
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
		return content{in, f.Name(), w.Size, func() error { return check(hex.EncodeToString(hash.Sum(nil)), nil) }}, nil
	}
	in, err := entry.Open()
	return content{in, entry.Name, int64(entry.UncompressedSize64), func() error { return check(f.hash(w.Size)) }}, err
}

// growable reports whether an import can continue with data that is appended to the file
// later.
func growable(o Options, file inputFile) bool {
	zipped, err := importfile.IsZip(file)
	return err == nil && !zipped && o.Format != record.JSON && o.Encoding == ""
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
	entry, err := importfile.ZipEntry(file, info.Size())
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", archive, err)
	case entry == nil:
		return "", fmt.Errorf("%s is not a zip archive", archive)
	}
	return entry.Name, nil
}
