package syncer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	defaultBatchBytes = 32 << 20 // size of a batch of changes, which is held in memory
	bufferBytes       = 64 << 10 // size of each file's buffer
)

// copyFile describes a new copy in a temporary file.
type copyFile struct {
	path    string // "" if nothing has changed and the old copy stays
	records int64
	digest  digest
	old     fs.FileInfo // the file that the new copy may replace; nil if there was none
	applied digest      // of the changes
}

// merge applies the walk's changes to the copy at base, or to an empty copy if base is "". It
// reads the changes in batches of about batchBytes, and rewrites the copy for each batch.
func (s *syncer) merge(ctx context.Context, base string) (merged copyFile, err error) {
	file, err := os.Open(s.walk.Path())
	if err != nil {
		return copyFile{}, err
	}
	defer file.Close() //nolint:errcheck // the file is only read
	in := bufio.NewReaderSize(file, bufferBytes)
	for last := false; !last; base = merged.path {
		b, err := readBatch(in, s.Resource, s.batchBytes)
		if last = err == io.EOF; err != nil && !last {
			return copyFile{}, fmt.Errorf("read %s: %w", file.Name(), err)
		}
		if merged, err = s.mergeBatch(ctx, base, b); err != nil {
			return copyFile{}, fmt.Errorf("merge the changes: %w", err)
		}
	}
	return merged, nil
}

// mergeBatch applies b to the copy at base, or to an empty copy if base is "".
func (s *syncer) mergeBatch(ctx context.Context, base string, b batch) (merged copyFile, err error) {
	var from io.Reader = bytes.NewReader(nil)
	if base != "" {
		file, err := os.Open(base)
		if err != nil {
			return copyFile{}, err
		}
		defer file.Close() //nolint:errcheck // the file is only read
		from = file
	}
	file, err := os.OpenFile(s.statePath+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, s.mode)
	if err != nil {
		return copyFile{}, err
	}
	// The umask restricts the mode of a new file, and a file left by an earlier run may have
	// another mode.
	if err := file.Chmod(s.mode); err != nil {
		return copyFile{}, errors.Join(err, file.Close())
	}
	d := newDigester()
	out := bufio.NewWriterSize(io.MultiWriter(file, d), bufferBytes)
	records, err := b.apply(ctx, from, out)
	if err = errors.Join(err, out.Flush(), file.Sync(), file.Close()); err != nil {
		return copyFile{}, err
	}
	// base and merged.path can be the same file, so the new copy replaces it only after apply has
	// read it.
	merged = copyFile{path: s.statePath + ".merged", records: records, digest: d.digest()}
	return merged, os.Rename(file.Name(), merged.path)
}
