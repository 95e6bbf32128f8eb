package importer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/recordfile"
)

// row is a record of a file.
type row struct {
	recordfile.Record // the field Err is set if the record cannot be sent

	event  event.Draft  // set if the import imports events
	entity entity.Draft // set if the import imports entities

	counts Counts  // result of the record; all counts are 0 before the result is known
	reject *reject // nil unless the record was rejected
}

// recordReader reads the records of a file one after the other.
type recordReader struct {
	file   *recordfile.Reader
	events bool
	makeID func(line int64) string // returns the id for a record that has no id in the file
}

// openRecords returns a reader of file, which may be compressed with gzip.
func openRecords(file io.Reader, format recordfile.Format, events bool, makeID func(line int64) string) (*recordReader, error) {
	columns := entity.Columns()
	if events {
		columns = event.Columns()
	}
	r, err := recordfile.NewReader(file, format, columns)
	return &recordReader{file: r, events: events, makeID: makeID}, err
}

// read returns the next record, or io.EOF after the last one. After any other error the
// rest of the file cannot be read.
func (r *recordReader) read() (rec row, err error) {
	rec.Record, err = r.file.Read()
	switch {
	case err != nil || rec.Err != nil:
	case r.events:
		if rec.event, rec.Err = event.Parse(rec.JSON, "created_at"); rec.event.ID == "" {
			rec.event.ID = r.makeID(rec.Line)
		}
		if rec.Err == nil && rec.event.OccurredAt == nil && r.file.HasColumn("occurred_at") {
			rec.Err = errNoTime
		}
	default:
		if rec.entity, rec.Err = entity.Parse(rec.JSON, "created_at", "updated_at"); rec.entity.ID == "" {
			rec.entity.ID = r.makeID(rec.Line)
		}
	}
	return rec, err
}

// errNoTime rejects an event that would otherwise occur when it is imported.
var errNoTime = errors.New("occurred_at is empty; to import events that occur now, leave out the column")

// seededID returns the id for a record that has no id in the file. The parameter line is the
// number of the first line of the record. The id is a UUIDv8 (RFC 9562) that depends only on
// seed and line.
func seededID(seed string, line int64) string {
	return uuid.NewHash(sha256.New(), uuid.Nil, fmt.Appendf(nil, "%s %d", seed, line), 8).String()
}
