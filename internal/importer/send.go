package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/client"
)

// events reports whether the records are events.
func (o Options) events() bool { return o.Resource == "events" }

// perCall returns the most records of a call.
func (o Options) perCall() int {
	if o.OneByOne || !o.events() {
		return 1
	}
	return client.MaxBatchEvents
}

// sizeOf returns at least the bytes that an event takes in a batch: six for each
// character of the name, which JSON may escape, and the names of the members.
func sizeOf(e client.NewEvent) int {
	return len(e.Attributes) + 6*len(e.Name) + len(e.ID) + len(e.EntityID) + 128
}

// sendAll sends records by concurrent calls. After the first error it begins no
// further call; those that were begun before end.
func (im *importer) sendAll(ctx context.Context, records []record) error {
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(im.Workers)
	begin, size := 0, 0
	for i, rec := range records {
		size += sizeOf(rec.event)
		if next := i + 1; next < len(records) && next-begin < im.perCall() && size+sizeOf(records[next].event) <= client.MaxBatchBytes {
			continue
		}
		call := records[begin : i+1]
		begin, size = i+1, 0
		g.Go(func() error {
			if err := going.Err(); err != nil {
				return err
			}
			return im.send(ctx, call)
		})
	}
	return g.Wait()
}

// send sends the records of one call and notes what became of each. An error means
// that some of them have no final result.
func (im *importer) send(ctx context.Context, records []record) error {
	var batch []*record
	var events []client.NewEvent
	for i := range records {
		switch rec := &records[i]; {
		case rec.Err != nil:
			rec.rejected(reject{Reason: rec.Err.Error()})
		case im.perCall() == 1:
			counts, err := im.sendOne(ctx, rec)
			return rec.note(counts, err)
		default:
			batch, events = append(batch, rec), append(events, rec.event)
		}
	}
	results, err := im.client.CreateEvents(ctx, events)
	if err != nil {
		return err
	}
	for i, r := range results {
		if err := batch[i].note(created(r.Created), r.Err); err != nil {
			return err
		}
	}
	return nil
}

// sendOne sends one record. With Update it merges an entity that is rejected
// because of other content into the one that exists.
func (im *importer) sendOne(ctx context.Context, rec *record) (Counts, error) {
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
func (rec *record) note(counts Counts, err error) error {
	e := rejection(err)
	switch {
	case err == nil:
		rec.counts = counts
	case e != nil:
		rec.rejected(reject{Reason: e.Detail, Status: e.Status, Code: e.Code})
	default:
		return err
	}
	return nil
}

// rejected notes that a record was rejected.
func (rec *record) rejected(r reject) {
	r.Line, r.Input = rec.Line, rec.Text
	rec.reject, rec.counts = &r, Counts{Rejected: 1}
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
