package main

import (
	"io"

	api "sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/recordfile"
)

// chooseFormat returns the format that a flag names, or else that of a file's
// name; NDJSON for "-".
func chooseFormat(flag, path string) (recordfile.Format, error) {
	switch format := recordfile.Format(flag); {
	case format == recordfile.NDJSON || format == recordfile.CSV:
		return format, nil
	case flag != "":
		return "", usageError("--format must be ndjson or csv, not %q", flag)
	case path == "-":
		return recordfile.NDJSON, nil
	}
	if format := recordfile.FormatOf(path); format != "" {
		return format, nil
	}
	return "", usageError("the name %q does not tell its format; say --format ndjson or csv", path)
}

// fileRecord is a record of a file.
type fileRecord struct {
	recordfile.Record // Err is why it cannot be sent

	event  api.NewEvent // one of these
	entity api.NewEntity
}

// recordReader reads the records of a file one after the other.
type recordReader struct {
	file   *recordfile.Reader
	makeID func(line int64) string // of a record without an id
	events bool
}

// openRecords reads file, which may be compressed with gzip.
func openRecords(file io.Reader, format recordfile.Format, events bool, makeID func(line int64) string) (*recordReader, error) {
	r, err := recordfile.NewReader(file, format, columnsOf(events))
	return &recordReader{file: r, makeID: makeID, events: events}, err
}

// columnsOf returns the columns that a CSV file of events, or else of entities,
// has besides attributes.
func columnsOf(events bool) []string {
	if events {
		return event.Columns()
	}
	return entity.Columns()
}

// read returns the next record; io.EOF after the last. Any other error ends the file.
func (r *recordReader) read() (rec fileRecord, err error) {
	rec.Record, err = r.file.Read()
	switch {
	case err != nil || rec.Err != nil:
	case r.events:
		var e event.New
		if e, rec.Err = event.Parse(rec.JSON, "created_at"); e.ID == "" {
			e.ID = r.makeID(rec.Line)
		}
		rec.event = api.NewEvent{ID: e.ID, Name: e.Name, EntityID: string(e.EntityID), Attributes: e.Attributes}
		if e.OccurredAtSet {
			rec.event.OccurredAt = &e.OccurredAt
		}
	default:
		var e entity.Entity
		if e, rec.Err = entity.Parse(rec.JSON, "created_at", "updated_at"); e.ID == "" {
			e.ID = r.makeID(rec.Line)
		}
		rec.entity = api.NewEntity{ID: e.ID, Type: e.Type, Attributes: e.Attributes}
	}
	return rec, err
}
