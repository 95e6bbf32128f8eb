package importer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

type row struct {
	recordfile.Record      // Err is set if the record cannot be sent
	element           bool // whether Line counts records instead of lines, as in a JSON file

	event  event.Draft  // set in an import of events
	entity entity.Draft // set in an import of entities

	counts Counts  // the record's result; all 0 until it is known
	reject *reject // nil unless the record was rejected
}

type recordReader struct {
	file   *recordfile.Reader
	shape  *shaper
	events bool
	json   bool
	makeID func(line int64) string // returns the id for a record that has none in the file
}

// openRecords accepts a file with or without gzip compression.
func openRecords(file io.Reader, o Options, makeID func(line int64) string) (*recordReader, error) {
	r := &recordReader{events: o.events(), json: o.Format == record.JSON, makeID: makeID}
	var err error
	if r.shape, err = newShaper(o.Shape, o.Format, api.Members(o.Resource)); err != nil {
		return nil, err
	}
	if r.file, err = recordfile.NewReader(file, o.Format, r.shape.layout()); err != nil {
		return nil, err
	}
	return r, r.shape.checkHeader(o.Format)
}

// read returns io.EOF after the last record. After any other error, the rest of the file
// cannot be read.
func (r *recordReader) read() (rec row, err error) {
	rec.Record, err = r.file.Read()
	if err != nil {
		return rec, err
	}
	rec.element = r.json
	if rec.Err == nil {
		r.parse(&rec)
	}
	switch {
	case rec.Err != nil && !utf8.ValidString(rec.Text):
		rec.Err = fmt.Errorf("%w; for text that is not UTF-8, use --encoding, such as --encoding windows-1252", rec.Err)
	case r.shape.encoding != nil && strings.ContainsRune(rec.Text, utf8.RuneError):
		rec.Err = fmt.Errorf("the record has bytes that are not text in %s", r.shape.Encoding)
	}
	return rec, nil
}

// parse sets rec.event or rec.entity, and rec.Err if the record is invalid.
func (r *recordReader) parse(rec *row) {
	if rec.JSON, rec.Err = r.shape.record(rec.JSON); rec.Err != nil {
		return
	}
	if !r.events {
		if rec.entity, rec.Err = entity.Parse(rec.JSON, r.shape.ignored...); rec.entity.ID == "" {
			rec.entity.ID = r.makeID(rec.Line)
		}
		return
	}
	if rec.event, rec.Err = event.Parse(rec.JSON, r.shape.ignored...); rec.event.ID == "" {
		rec.event.ID = r.makeID(rec.Line)
	}
	if rec.Err == nil && rec.event.OccurredAt == nil && r.file.HasColumn("occurred_at") {
		rec.Err = errNoTime
	}
}

// errNoTime rejects an event that would otherwise get the time of its import.
var errNoTime = errors.New("occurred_at is empty; to import events that occur now, leave out the column")

// seededID returns the id for a record without one: a UUIDv8 (RFC 9562) that depends only on
// the seed and on the line where the record begins.
func seededID(seed string, line int64) string {
	return uuid.NewHash(sha256.New(), uuid.Nil, fmt.Appendf(nil, "%s %d", seed, line), 8).String()
}
