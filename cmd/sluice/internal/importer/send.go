package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

func (o Options) rowName(line int64) string {
	if o.Format == record.JSON {
		return fmt.Sprintf("element %d", line)
	}
	return fmt.Sprintf("line %d", line)
}

func (o Options) events() bool { return o.Resource == record.Event }

// perCall is the maximum number of records per call.
func (o Options) perCall() int {
	if o.OneByOne || o.CreateOnly {
		return 1
	}
	return client.MaxBatch
}

// size is an upper bound on the bytes that a record adds to a batch, including member names.
// Each byte of a name or type counts as six, because JSON may escape it, as in \u0001.
func (rec *row) size() int {
	if rec.Entity.ID != "" {
		return len(rec.Entity.Attributes) + 6*len(rec.Entity.Type) + len(rec.Entity.ID) + 128
	}
	return len(rec.Event.Attributes) + 6*len(rec.Event.Name) + len(rec.Event.ID) + len(rec.Event.EntityID) + 128
}

// sendAll makes concurrent calls. After the first error, it starts no more calls and waits for
// those in progress.
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

// send makes one call and sets its records' results. It fails if any record is left without one.
func (im *importer) send(ctx context.Context, records []row) error {
	var batch []*row
	for i := range records {
		switch rec := &records[i]; {
		case rec.Err != nil:
			rec.setRejected(reject{Reason: rec.Err.Error()}, im.Format)
		case im.perCall() == 1:
			return im.sendOne(ctx, rec)
		default:
			batch = append(batch, rec)
		}
	}
	if im.events() {
		return sendBatch(ctx, im, batch, im.client.CreateEvents,
			func(rec *row) event.Draft { return rec.Event }, func(e event.Event) record.Time { return e.CreatedAt })
	}
	return sendBatch(ctx, im, batch, im.client.UpsertEntities,
		func(rec *row) entity.Draft { return rec.Entity }, func(e entity.Entity) record.Time { return e.CreatedAt })
}

func (im *importer) sendOne(ctx context.Context, rec *row) error {
	if im.events() {
		stored, created, err := im.client.CreateEvent(ctx, rec.Event)
		return im.note(rec, created, stored.CreatedAt, err)
	}
	stored, created, err := im.client.CreateEntity(ctx, rec.Entity)
	return im.note(rec, created, stored.CreatedAt, err)
}

// sendBatch sends a batch in one call. member turns a record into an element of the request.
func sendBatch[N, T any](ctx context.Context, im *importer, batch []*row, call func(context.Context, []N) ([]client.BatchResult[T], error), member func(*row) N, createdAt func(T) record.Time) error {
	list := make([]N, len(batch))
	for i, rec := range batch {
		list[i] = member(rec)
	}
	results, err := call(ctx, list)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Deleted {
			batch[i].counts = Counts{Deleted: 1}
			continue
		}
		if err := im.note(batch[i], r.Created, createdAt(r.Record), r.Err); err != nil {
			return err
		}
	}
	return nil
}

// note sets a record's result. If err is neither nil nor a rejection of the record, note returns
// err instead. createdAt is the stored record's creation time, or zero if unknown. A record that
// already existed counts as new if an interrupted call of this import may have created it.
func (im *importer) note(rec *row, created bool, createdAt record.Time, err error) error {
	ours := (rec.Line <= im.sentBefore || im.lost.Load()) && createdAt.Time().After(im.began)
	switch e := rejection(err); {
	case e != nil:
		rec.setRejected(reject{Reason: e.Detail, Status: e.Status, Code: e.Code}, im.Format)
	case err != nil:
		return err
	case created || ours:
		rec.counts = Counts{Created: 1}
	case im.events() || im.CreateOnly:
		rec.counts = Counts{Existing: 1}
	default:
		rec.counts = Counts{Updated: 1}
	}
	return nil
}

func (rec *row) setRejected(r reject, format record.Format) {
	r.Input = rec.Text
	if format == record.JSON {
		r.Element = rec.Line
	} else {
		r.Line = rec.Line
	}
	if !utf8.ValidString(rec.Text) {
		r.Input, r.Bytes = "", []byte(rec.Text)
	}
	if rec.LastLine > rec.Line {
		r.LastLine = rec.LastLine
	}
	rec.reject, rec.counts = &r, Counts{Rejected: 1}
}

// rejection returns err as a *client.Error if the service rejected this record and would
// reject it again. Otherwise it returns nil.
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
