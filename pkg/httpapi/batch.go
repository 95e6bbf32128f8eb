package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

const (
	maxBatch = 100 // events of one request

	// BatchWriters is how many events of a batch are written at the same time.
	BatchWriters = 10
)

// batchBody is the JSON of a batch's outcome.
type batchBody struct {
	Results []batchResult `json:"results"`
}

// batchResult is what became of one element of a batch: what a request of its
// own would have answered.
type batchResult struct {
	Index   int          `json:"index"`  // in the batch, from 0
	Status  int          `json:"status"` // HTTP status
	Event   *event.Event `json:"event,omitempty"`
	Problem *Problem     `json:"problem,omitempty"`

	err error // of Problem, for the log
}

// createEvents creates up to maxBatch events, each by itself: some may fail
// while others are stored. A repeat of the whole finds what is stored.
func createEvents(h *Handler, r *request) (reply, error) {
	var elements []jsontext.Value
	if err := decodeBody(r, maxBatchBytes, fields{{"events", array(&elements, maxBatch)}}); err != nil {
		return reply{}, err
	}
	if elements == nil {
		return reply{}, record.Fields{{Field: "events", Detail: fmt.Sprintf("is required: an array of 1 to %d events", maxBatch)}}.Err()
	}
	b := batch{store: h.stores.Events, workspace: r.workspace, now: h.opts.Now(), results: make([]batchResult, len(elements))}
	b.create(r.Context(), elements)
	out, err := b.reply()
	if failed := b.failure(); err == nil && failed != nil {
		h.opts.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "part of a batch failed",
			slog.String("request_id", r.requestID), slog.String("Route", h.route.Name), slog.String("error", failed.Error()))
	}
	return out, err
}

// batch is one call of createEvents.
type batch struct {
	store     event.Store
	workspace string
	now       time.Time
	results   []batchResult
}

// create creates an event of each element and notes the results. Events of one
// id are created one after the other, in their order, so that it does not
// depend on luck which of them is stored.
func (b *batch) create(ctx context.Context, elements []jsontext.Value) {
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
	var wg sync.WaitGroup
	slots := make(chan struct{}, BatchWriters)
	for _, group := range byID {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var failed error
			for _, e := range group {
				var stored event.Event
				var created bool
				if failed == nil {
					stored, created, failed = b.createOne(ctx, e.New)
				}
				b.note(e.index, stored, created, failed)
				if isConflict(failed) {
					failed = nil // this one's alone
				}
			}
		})
	}
	wg.Wait()
}

// readElement reads an element of a batch as a body of its own would be read.
func readElement(element jsontext.Value) (event.New, error) {
	if len(element) > maxBodyBytes {
		return event.New{}, bodyTooLarge(maxBodyBytes)
	}
	if element.Kind() != '{' {
		return event.New{}, &record.Error{Kind: record.Invalid, Detail: "the event must be a JSON object"}
	}
	e, err := readEvent(func(f fields) error { return f.read(element) })
	if err != nil {
		return event.New{}, err
	}
	return e, e.Validate()
}

// createOne creates an event. A panic becomes an error, for it would end the
// process and not only the request.
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
	result := batchResult{Index: index, err: err}
	if err != nil {
		p := asAPIError(err).problem("")
		result.Status, result.Problem = p.Status, &p
	} else {
		result.Status, result.Event = createdStatus(created), &stored
	}
	b.results[index] = result
}

// failure joins what the service could not do, for the log; nil if it did all.
func (b *batch) failure() error {
	var errs []error
	for _, r := range b.results {
		if r.Status >= http.StatusInternalServerError {
			errs = append(errs, fmt.Errorf("event %d: %w", r.Index, r.err))
		}
	}
	return errors.Join(errs...)
}

// reply has the status that all events agree on, or 207. When all failed alike
// it is a problem that holds the results.
func (b *batch) reply() (reply, error) {
	status := b.results[0].Status
	for _, r := range b.results {
		if r.Status != status {
			status = http.StatusMultiStatus
		}
	}
	if status < http.StatusBadRequest {
		return reply{status: status, body: batchBody{Results: b.results}}, nil
	}
	first := b.results[0].Problem
	return reply{}, &apiError{
		status: status, code: first.Code, results: b.results, retryAfter: status == http.StatusServiceUnavailable, cause: b.failure(),
		detail: "no event was accepted; the results say why of each: " + first.Detail,
	}
}
