package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/client"
)

// batch is what one worker sends at a time.
type batch struct {
	records []record

	// The results. They are final if sent is set.
	sent    bool
	counts  Counts
	rejects []reject
}

// events reports whether the records are events.
func (o Options) events() bool { return o.Resource == "events" }

// perCall returns the most records of a call.
func (o Options) perCall() int {
	if o.OneByOne || !o.events() {
		return 1
	}
	return client.MaxBatchEvents
}

// split returns batches of the records that one call each can send.
func (im *importer) split(records []record) (round []*batch) {
	most, size := im.perCall(), 0
	for i, rec := range records {
		size += sizeOf(rec.event)
		if i%most == 0 || size > client.MaxBatchBytes {
			round, size = append(round, new(batch)), sizeOf(rec.event)
		}
		last := round[len(round)-1]
		last.records = append(last.records, rec)
	}
	return round
}

// sizeOf returns at least the bytes that an event takes in a batch: six for each
// character of the name, which JSON may escape, and the names of the members.
func sizeOf(e client.NewEvent) int {
	return len(e.Attributes) + 6*len(e.Name) + len(e.ID) + len(e.EntityID) + 128
}

// sendAll sends batches at the same time. After the first error it begins no further
// one; those that were begun before end.
func (im *importer) sendAll(ctx context.Context, round []*batch) error {
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(im.Workers)
	for _, b := range round {
		g.Go(func() error {
			err := going.Err()
			if err == nil {
				err = im.send(ctx, b)
			}
			b.sent = err == nil
			return err
		})
	}
	return g.Wait()
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
	switch {
	case len(good) == 0:
		return nil
	case im.perCall() == 1:
		counts, err := im.sendOne(ctx, good[0])
		return b.note(good[0], counts, err)
	}
	events := make([]client.NewEvent, len(good))
	for i, rec := range good {
		events[i] = rec.event
	}
	results, err := im.client.CreateEvents(ctx, events)
	if err != nil {
		return err
	}
	for i, r := range results {
		if err := b.note(good[i], created(r.Created), r.Err); err != nil {
			return err
		}
	}
	return nil
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
	if e := rejection(err); e != nil {
		b.reject(rec, reject{Reason: e.Detail, Status: e.Status, Code: e.Code})
		return nil
	}
	return err
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
