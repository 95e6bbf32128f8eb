package syncer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	defaultBatchBytes = 32 << 20 // of changes to hold in memory
	bufferBytes       = 64 << 10 // of the buffers of files
)

// copyFile is a new copy, in a file that is not yet in place.
type copyFile struct {
	path    string // "" if the old copy stays, because nothing has changed
	records int64
	digest  digest
}

// merge writes the copy that results from the changes of the walk to the copy at base,
// or to an empty one if base is "". It holds batchBytes of changes in memory and writes
// the copy once for each batch of that size.
func (s *syncer) merge(ctx context.Context, base string) (merged copyFile, err error) {
	file, err := os.Open(s.walk.Path())
	if err != nil {
		return copyFile{}, err
	}
	defer file.Close() //nolint:errcheck // only read
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

// mergeBatch writes the copy that results from b to the copy at base.
func (s *syncer) mergeBatch(ctx context.Context, base string, b batch) (merged copyFile, err error) {
	var from io.Reader = bytes.NewReader(nil)
	if base != "" {
		file, err := os.Open(base)
		if err != nil {
			return copyFile{}, err
		}
		defer file.Close() //nolint:errcheck // only read
		from = file
	}
	file, err := os.OpenFile(s.statePath+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, s.mode)
	if err != nil {
		return copyFile{}, err
	}
	d := newDigester()
	out := bufio.NewWriterSize(io.MultiWriter(file, d), bufferBytes)
	records, err := b.apply(ctx, from, out)
	if err = errors.Join(err, out.Flush(), file.Sync(), file.Close()); err != nil {
		return copyFile{}, err
	}
	merged = copyFile{s.statePath + ".merged", records, d.digest()} // which may be base
	return merged, os.Rename(file.Name(), merged.path)
}
