package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

const (
	// MaxBatch is the maximum number of records in a batch.
	MaxBatch = 100

	// BatchWriters is how many records of a batch are written concurrently by default. A function
	// with 256 MB of memory has too little CPU for more.
	BatchWriters = 16
)

// batch is a request to store up to MaxBatch records. Each is written separately, so some may
// fail while others are stored. A client can safely repeat the whole batch.
type batch struct {
	noun    string // "entity" or "event", for error messages
	results []api.BatchResult
	errs    []error // one per element, nil if the element was stored
}

// batchWrite is a valid element of a batch.
type batchWrite struct {
	id    string
	index int
	store func(context.Context) (api.BatchResult, error) // leaves the result's Index at 0
}

// importBatch stores the records in the body of r, a JSON object with one array, such as
// {"events": […]}. It decodes and validates each element with read. If prepare is not nil, it is
// called with the ids of the valid elements before the first write.
func importBatch(s *service, r *request, noun, plural string, read func(element []byte) (batchWrite, error), prepare func(ctx context.Context, ids []string) error) (response, error) {
	var elements [][]byte
	if err := (record.Decoders{plural: record.Array(&elements, MaxBatch)}).Decode(r.body); err != nil {
		return response{}, err
	}
	if elements == nil {
		return response{}, record.Fields{{Field: plural, Detail: fmt.Sprintf("is required: an array of 1 to %d %s", MaxBatch, plural)}}.Err()
	}
	b := batch{noun: noun, results: make([]api.BatchResult, len(elements)), errs: make([]error, len(elements))}
	byID := b.read(elements, read)
	var err error
	if prepare != nil && len(byID) > 0 {
		err = prepare(r.Context(), slices.Collect(maps.Keys(byID)))
	}
	if err != nil {
		b.fail(byID, err)
	} else {
		b.write(r.Context(), byID, s.stores.BatchWriters)
	}
	out, err := b.response()
	if failed := b.failure(); err == nil && failed != nil {
		s.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "part of a batch failed",
			slog.String("request_id", r.id), slog.String("Route", r.route.Name), slog.String("error", failed.Error()))
	}
	return out, err
}

// read returns the valid elements, grouped by record id and in the order of the batch. It notes
// the errors of the invalid elements.
func (b *batch) read(elements [][]byte, read func(element []byte) (batchWrite, error)) map[string][]batchWrite {
	byID := make(map[string][]batchWrite)
	for i, element := range elements {
		if len(element) > maxBodyBytes {
			b.note(i, api.BatchResult{}, payloadTooLarge("the "+b.noun, maxBodyBytes))
			continue
		}
		w, err := read(element)
		if record.CodeOf(err) == record.Malformed { // the element is malformed, but the batch as a whole is JSON
			err = &record.Error{Code: record.Invalid, Detail: "the " + b.noun + " must be a JSON object"}
		}
		if err != nil {
			b.note(i, api.BatchResult{}, err)
			continue
		}
		w.index = i
		byID[w.id] = append(byID[w.id], w)
	}
	return byID
}

func (b *batch) fail(byID map[string][]batchWrite, err error) {
	for _, group := range byID {
		for _, w := range group {
			b.note(w.index, api.BatchResult{}, err)
		}
	}
}

// write stores the elements, up to writers at once, and notes the results. Elements with the same
// id are stored in order. If one of them fails and the client is not at fault, the later ones are
// skipped, so that the order is still right when the client repeats the batch.
func (b *batch) write(ctx context.Context, byID map[string][]batchWrite, writers int) {
	var calls errgroup.Group
	calls.SetLimit(writers)
	for _, group := range byID {
		calls.Go(func() error {
			var failed error
			for _, w := range group {
				var result api.BatchResult
				if failed == nil {
					result, failed = w.try(ctx)
				}
				b.note(w.index, result, failed)
				if kind := record.CodeOf(failed); kind == record.Conflict || kind == record.Invalid {
					failed = nil // only this record is at fault
				}
			}
			return nil
		})
	}
	calls.Wait() //nolint:errcheck // b.errs has the errors
}

// try stores the element. It turns a panic into an error, because a panic outside the request's
// own goroutine would end the process.
func (w batchWrite) try(ctx context.Context) (result api.BatchResult, err error) {
	defer recovered(&err)
	return w.store(ctx)
}

func (b *batch) note(index int, result api.BatchResult, err error) {
	if err != nil {
		p := asAPIError(err).problem("")
		result = api.BatchResult{Status: p.Status, Problem: &p}
	}
	result.Index = index
	b.results[index], b.errs[index] = result, err
}

// failure joins the errors of all elements with a status of 500 or above, for the log.
func (b *batch) failure() error {
	var errs []error
	for _, r := range b.results {
		if r.Status >= http.StatusInternalServerError {
			errs = append(errs, fmt.Errorf("%s %d: %w", b.noun, r.Index, b.errs[r.Index]))
		}
	}
	return errors.Join(errs...)
}

// response has the status of the results, or 207 if their statuses differ. If all results have the
// same error status, the body is a problem that contains the results.
func (b *batch) response() (response, error) {
	shortenResults(b.results)
	status := b.results[0].Status
	for _, r := range b.results {
		if r.Status != status {
			status = http.StatusMultiStatus
		}
	}
	if status < http.StatusBadRequest {
		b.trim()
		return response{status: status, body: api.Batch{Results: b.results}}, nil
	}
	first := b.results[0].Problem
	return response{}, &apiError{
		status: status, code: first.Code, results: b.results, cause: b.failure(),
		detail: "no " + b.noun + " was accepted; the results say why: " + first.Detail,
	}
}

// trim leaves entities out of the results once the total size of their attributes exceeds
// record.MaxPageBytes. Even a small request can change large entities.
func (b *batch) trim() {
	size := 0
	for i, r := range b.results {
		if r.Entity == nil {
			continue
		}
		if size += len(r.Entity.Attributes); size > record.MaxPageBytes {
			b.results[i].Entity = nil
		}
	}
}
