package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"sluice/pkg/client"
)

// maxAhead is how many batches for each worker may be sent while an earlier batch
// is not.
const maxAhead = 16

// batch is what one worker sends at a time.
type batch struct {
	records []record
	line    int64 // where the last of them begins
	offset  int64 // where the last of them ends, in bytes of the file

	// The results, once sent is closed.
	sent    chan struct{}
	err     error // some records have no final result
	counts  Counts
	rejects []reject
}

// events reports whether the records are events.
func (o Options) events() bool { return o.Resource == "events" }

// read passes batches of the records that begin after the line done to give.
func (im *importer) read(file io.Reader, done int64, give func(*batch) error) error {
	records, err := openRecords(file, im.Format, im.events(), func(line int64) string { return seededID(im.seed, line) })
	if err != nil {
		return err
	}
	most := client.MaxBatchEvents
	if im.OneByOne || !im.events() {
		most = 1
	}
	b, size := &batch{sent: make(chan struct{})}, 0
	for {
		rec, err := records.read()
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s: %w", im.Path, err)
		}
		recordSize := sizeOf(rec.event)
		if n := len(b.records); n > 0 && (err == io.EOF || n == most || size+recordSize > client.MaxBatchBytes) {
			if err := give(b); err != nil {
				return err
			}
			b, size = &batch{sent: make(chan struct{})}, 0
		}
		switch {
		case err == io.EOF:
			return nil
		case rec.Line > done:
			b.records, b.line, b.offset = append(b.records, rec), rec.Line, rec.Offset
			size += recordSize
		}
	}
}

// sizeOf returns at least the bytes that an event takes in a batch: six for each
// character of the name, which JSON may escape, and the names of the members.
func sizeOf(e client.NewEvent) int {
	return len(e.Attributes) + 6*len(e.Name) + len(e.ID) + len(e.EntityID) + 128
}

// send sends the records of a batch and stores their results in it. An error means
// that some of them have no final result.
func (im *importer) send(ctx context.Context, b *batch) error {
	var good []record
	for _, rec := range b.records {
		if rec.Err != nil {
			b.reject(rec, reject{Reason: rec.Err.Error()})
			continue
		}
		good = append(good, rec)
	}
	b.records = nil // batches that wait for an earlier one need little memory
	if len(good) > 1 {
		if done, err := im.sendTogether(ctx, b, good); done || err != nil {
			return err
		}
	}
	for _, rec := range good {
		counts, err := im.sendOne(ctx, rec)
		if err := b.note(rec, counts, err); err != nil {
			return err
		}
	}
	return nil
}

// sendTogether creates events in one call. It returns false if the service rejects
// the call as a whole, which does not say which event is at fault.
func (im *importer) sendTogether(ctx context.Context, b *batch, list []record) (done bool, err error) {
	events := make([]client.NewEvent, len(list))
	for i, rec := range list {
		events[i] = rec.event
	}
	results, err := im.client.CreateEvents(ctx, events)
	if err != nil {
		if rejection(err) != nil {
			err = nil
		}
		return false, err
	}
	for i, r := range results {
		if err := b.note(list[i], created(r.Created), r.Err); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sendOne sends one record. With Update it merges an entity that is rejected
// because of other content into the one that exists.
func (im *importer) sendOne(ctx context.Context, rec record) (Counts, error) {
	if im.events() {
		_, isNew, err := im.client.CreateEvent(ctx, rec.event)
		return created(isNew), err
	}
	_, isNew, err := im.client.CreateEntity(ctx, rec.entity)
	if !im.Update || !errors.Is(err, client.ErrConflict) {
		return created(isNew), err
	}
	existing, getErr := im.client.GetEntity(ctx, rec.entity.ID)
	switch {
	case errors.Is(getErr, client.ErrNotFound):
		return Counts{}, err // deleted in between: the conflict stands
	case getErr != nil:
		return Counts{}, getErr
	case existing.Type != rec.entity.Type:
		return Counts{}, &client.Error{Status: http.StatusConflict, Code: "conflict", Detail: fmt.Sprintf("the entity there has the type %q, which cannot change", existing.Type)}
	}
	_, err = im.client.UpdateEntity(ctx, rec.entity.ID, rec.entity.Attributes)
	return Counts{Updated: 1}, err
}

// created counts a record that was created, or existed.
func created(isNew bool) Counts {
	if isNew {
		return Counts{Created: 1}
	}
	return Counts{Existing: 1}
}

// note notes what became of a record: counts, or a rejection. It returns errors
// that are not about the record.
func (b *batch) note(rec record, counts Counts, err error) error {
	if err == nil {
		b.counts.add(counts)
		return nil
	}
	e := rejection(err)
	if e == nil {
		return err
	}
	b.reject(rec, reject{Reason: e.Detail, Status: e.Status, Code: e.Code})
	return nil
}

func (b *batch) reject(rec record, r reject) {
	r.Line, r.Input = rec.Line, rec.Text
	b.rejects = append(b.rejects, r)
	b.counts.Rejected++
}

// rejection returns err if it is about the record, so that the service would
// reject the record however often it is sent, and otherwise nil.
func rejection(err error) *client.Error {
	var e *client.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if e.Code != "" {
			return e
		}
	case http.StatusNotFound:
		if e.Code == "not_found" {
			return e
		}
	}
	return nil
}
