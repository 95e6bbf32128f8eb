package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

const (
	maxBatch = 100 // events of one request

	// BatchWriters is how many events of a batch are written at the same time.
	BatchWriters = 10
)

// createEvents creates up to maxBatch events independently: some may fail while
// others are stored. Repeating the whole batch is safe.
func createEvents(s *service, r *request) (response, error) {
	body, err := readBody(r, maxBatchBytes)
	if err != nil {
		return response{}, err
	}
	var elements [][]byte
	if err := (record.Decoders{"events": record.Array(&elements, maxBatch)}).Decode(body); err != nil {
		return response{}, err
	}
	if elements == nil {
		return response{}, record.Fields{{Field: "events", Detail: fmt.Sprintf("is required: an array of 1 to %d events", maxBatch)}}.Err()
	}
	b := batch{store: s.stores.Events, workspace: r.workspace, now: s.Now(), results: make([]api.BatchResult, len(elements)), errs: make([]error, len(elements))}
	b.create(r.Context(), elements)
	out, err := b.response()
	if failed := b.failure(); err == nil && failed != nil {
		s.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "part of a batch failed",
			slog.String("request_id", r.log.requestID), slog.String("Route", r.route.Name), slog.String("error", failed.Error()))
	}
	return out, err
}

// batch is one call of createEvents.
type batch struct {
	store     event.Store
	workspace string
	now       time.Time
	results   []api.BatchResult
	errs      []error // by element; nil if it was stored
}

// create creates the event of each element and notes the results. Events with
// the same id are created in their order, so that the first valid one is stored.
func (b *batch) create(ctx context.Context, elements [][]byte) {
	type indexed struct {
		event.New
		index int
	}
	byID := make(map[string][]indexed)
	for i, element := range elements {
		e, err := readElement(element)
		if err != nil {
			b.note(i, event.Event{}, false, err)
			continue
		}
		byID[e.ID] = append(byID[e.ID], indexed{e, i})
	}
	var writers errgroup.Group
	writers.SetLimit(BatchWriters)
	for _, group := range byID {
		writers.Go(func() error {
			var failed error
			for _, e := range group {
				var stored event.Event
				var created bool
				if failed == nil {
					stored, created, failed = b.createOne(ctx, e.New)
				}
				b.note(e.index, stored, created, failed)
				if isConflict(failed) {
					failed = nil // concerns only this event
				}
			}
			return nil
		})
	}
	writers.Wait() //nolint:errcheck // the results have the errors
}

// readElement reads an element of a batch like the body of a request.
func readElement(element []byte) (event.New, error) {
	if len(element) > maxBodyBytes {
		return event.New{}, payloadTooLarge("the event", maxBodyBytes)
	}
	e, err := newEvent(element)
	var malformed *record.Error
	if errors.As(err, &malformed) && malformed.Kind == record.Malformed { // the batch is well-formed JSON
		err = &record.Error{Kind: record.Invalid, Detail: "the event must be a JSON object"}
	}
	return e, err
}

// createOne creates an event. A panic becomes an error: outside the request's
// goroutine it would end the process.
func (b *batch) createOne(ctx context.Context, e event.New) (stored event.Event, created bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return event.Create(ctx, b.store, b.workspace, e, b.now)
}

func isConflict(err error) bool {
	var failure *record.Error
	return errors.As(err, &failure) && failure.Kind == record.Conflict
}

func (b *batch) note(index int, stored event.Event, created bool, err error) {
	result := api.BatchResult{Index: index}
	if err != nil {
		p := asAPIError(err).problem("")
		result.Status, result.Problem = p.Status, &p
	} else {
		result.Status, result.Event = createdStatus(created), &stored
	}
	b.results[index], b.errs[index] = result, err
}

// failure returns the faults of the service, joined, for the log; nil if there
// were none.
func (b *batch) failure() error {
	var errs []error
	for _, r := range b.results {
		if r.Status >= http.StatusInternalServerError {
			errs = append(errs, fmt.Errorf("event %d: %w", r.Index, b.errs[r.Index]))
		}
	}
	return errors.Join(errs...)
}

// response returns the response with the status that all results have, or 207.
// If all failed with one status, it is a problem that holds the results.
func (b *batch) response() (response, error) {
	status := b.results[0].Status
	for _, r := range b.results {
		if r.Status != status {
			status = http.StatusMultiStatus
		}
	}
	if status < http.StatusBadRequest {
		return response{status: status, body: api.Batch{Results: b.results}}, nil
	}
	first := b.results[0].Problem
	return response{}, &apiError{
		status: status, code: first.Code, results: b.results, retryAfter: status == http.StatusServiceUnavailable, cause: b.failure(),
		detail: "no event was accepted; the results say why: " + first.Detail,
	}
}
