package importer

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/client"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// events reports whether the records are events.
func (o Options) events() bool { return o.Resource == record.Event }

// perCall returns the maximum number of records per call.
func (o Options) perCall() int {
	if o.OneByOne || o.CreateOnly {
		return 1
	}
	return client.MaxBatch
}

// size returns an upper bound of the size of a record in a batch, in bytes. The bound
// includes the JSON member names. Each byte of a record's name or type counts as six bytes,
// because JSON may need an escape sequence such as \u0001 for it.
func (rec *row) size() int {
	if rec.entity.ID != "" {
		return len(rec.entity.Attributes) + 6*len(rec.entity.Type) + len(rec.entity.ID) + 128
	}
	return len(rec.event.Attributes) + 6*len(rec.event.Name) + len(rec.event.ID) + len(rec.event.EntityID) + 128
}

// sendAll sends records with concurrent calls. After the first error, it starts no further
// call and waits for the calls in progress.
func (im *importer) sendAll(ctx context.Context, records []row) error {
	g, going := errgroup.WithContext(ctx)
	g.SetLimit(im.Workers)
	begin, size := 0, 0
	for i, rec := range records {
		size += rec.size()
		if next := i + 1; next < len(records) && next-begin < im.perCall() && size+records[next].size() <= client.MaxBatchBytes {
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

// send sends the records of one call and sets their results. It returns an error if some of
// the records have no final result.
func (im *importer) send(ctx context.Context, records []row) error {
	var batch []*row
	for i := range records {
		switch rec := &records[i]; {
		case rec.Err != nil:
			rec.setRejected(reject{Reason: rec.Err.Error()})
		case im.perCall() == 1:
			return im.sendOne(ctx, rec)
		default:
			batch = append(batch, rec)
		}
	}
	if im.events() {
		return sendBatch(ctx, batch, im.client.CreateEvents, func(rec *row) event.Draft { return rec.event }, Counts{Existing: 1})
	}
	return sendBatch(ctx, batch, im.client.UpsertEntities, func(rec *row) client.NewEntity { return rec.entity }, Counts{Updated: 1})
}

// sendOne creates one record with a separate call.
func (im *importer) sendOne(ctx context.Context, rec *row) (err error) {
	var isNew bool
	if im.events() {
		_, isNew, err = im.client.CreateEvent(ctx, rec.event)
	} else {
		_, isNew, err = im.client.CreateEntity(ctx, rec.entity)
	}
	return rec.note(isNew, Counts{Existing: 1}, err)
}

// sendBatch sends the records of batch with one call. It calls member to convert each record
// to a member of the batch. The parameter existing is the result for a record that was already
// stored.
func sendBatch[N, T any](ctx context.Context, batch []*row, call func(context.Context, []N) ([]client.BatchResult[T], error), member func(*row) N, existing Counts) error {
	list := make([]N, len(batch))
	for i, rec := range batch {
		list[i] = member(rec)
	}
	results, err := call(ctx, list)
	if err != nil {
		return err
	}
	for i, r := range results {
		if err := batch[i].note(r.Created, existing, r.Err); err != nil {
			return err
		}
	}
	return nil
}

// note sets the result of a record. If the service rejected the record, the result is that
// rejection. If err is another error, note returns err and sets no result. If err is nil, the
// result is one created record if created is true, or else the value of existing.
func (rec *row) note(created bool, existing Counts, err error) error {
	e := rejection(err)
	switch {
	case e != nil:
		rec.setRejected(reject{Reason: e.Detail, Status: e.Status, Code: e.Code})
	case err != nil:
		return err
	case created:
		rec.counts = Counts{Created: 1}
	default:
		rec.counts = existing
	}
	return nil
}

// setRejected sets the result of a record to the rejection r.
func (rec *row) setRejected(r reject) {
	r.Line, r.Input = rec.Line, rec.Text
	rec.reject, rec.counts = &r, Counts{Rejected: 1}
}

// rejection returns err as a *client.Error if the service rejects the record itself. The
// service would reject such a record again. For any other error, rejection returns nil.
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
