package importer

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	_ "time/tzdata" // for machines without a time zone database

	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

// row is a row of the file with its result.
type row struct {
	importfile.Row
	counts Counts  // all 0 until the result is known
	reject *reject // nil unless the record was rejected
}

// Encoding returns the canonical label of an encoding, or "" for UTF-8.
func Encoding(label string) (string, error) {
	found, err := htmlindex.Get(label)
	if err != nil || found == encoding.Replacement {
		return "", fmt.Errorf("--encoding %s is unknown; use a name such as windows-1252, iso-8859-15, macintosh, utf-16 or shift_jis", label)
	}
	if found == unicode.UTF8 {
		return "", nil
	}
	return htmlindex.Name(found)
}

// decode is importfile.Options.Decode.
func decode(label string, r io.Reader) (io.Reader, error) {
	found, err := htmlindex.Get(label)
	if err != nil {
		return nil, fmt.Errorf("the encoding %s is unknown", label)
	}
	return transform.NewReader(r, unicode.BOMOverride(found.NewDecoder())), nil
}

// checkNames reads the file until it has found every member that becomes a field, usually in the
// first record.
func checkNames(ctx context.Context, file inputFile, w work, o Options) error {
	if len(o.Columns) == 0 || o.Format == record.CSV {
		return nil
	}
	in, err := file.content(w)
	if err != nil {
		return err
	}
	records, err := importfile.Open(in, o.Description, importfile.Options{Decode: decode})
	if err != nil {
		return fmt.Errorf("read %s: %w", o.Path, err)
	}
	for ctx.Err() == nil {
		_, err := records.Read()
		missing := records.Missing(false)
		switch {
		case err == io.EOF:
			return missing
		case err != nil: // the import reports this error after importing the preceding records
			return nil
		case missing == nil && records.SawMembers():
			return nil
		}
	}
	return context.Cause(ctx)
}
