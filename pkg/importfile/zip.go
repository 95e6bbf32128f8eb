package importfile

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"sluice/pkg/record"
)

// IsZip reports whether a file is a zip archive.
func IsZip(file io.ReaderAt) (bool, error) {
	var magic [4]byte
	if _, err := file.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return false, err
	}
	return bytes.Equal(magic[:], []byte("PK\x03\x04")), nil
}

// ZipEntry returns the only file in a zip archive, or nil if file is not a zip archive.
func ZipEntry(file io.ReaderAt, size int64) (*zip.File, error) {
	if zipped, err := IsZip(file); err != nil || !zipped {
		return nil, err
	}
	archive, err := zip.NewReader(file, size)
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
