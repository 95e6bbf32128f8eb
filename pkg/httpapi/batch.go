package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

const (
	maxBatch = 100 // records of one request

	// BatchWriters is how many records of a batch are written at the same time.
	BatchWriters = 10
)

// batch is one request for up to maxBatch records, which are written independently:
// some may fail while others are stored. Repeating the whole batch is safe.
type batch struct {
	noun    string // of a record, such as event
	results []api.BatchResult
	errs    []error // by element; nil if it was stored
}

// batchWrite is an element of a batch that can be written: with the id of its record,
// and a function that stores it and returns the result without its index.
type batchWrite struct {
	id    string
	index int
	store func(context.Context) (api.BatchResult, error)
}

// importBatch responds to a request for records of a noun, which its body has in an
// array of that plural. read reads an element of the array.
func importBatch(s *service, r *request, noun, plural string, read func(element []byte) (batchWrite, error)) (response, error) {
	body, err := readBody(r, maxBatchBytes)
	if err != nil {
		return response{}, err
	}
	var elements [][]byte
	if err := (record.Decoders{plural: record.Array(&elements, maxBatch)}).Decode(body); err != nil {
		return response{}, err
	}
	if elements == nil {
		return response{}, record.Fields{{Field: plural, Detail: fmt.Sprintf("is required: an array of 1 to %d %s", maxBatch, plural)}}.Err()
	}
	b := batch{noun: noun, results: make([]api.BatchResult, len(elements)), errs: make([]error, len(elements))}
	b.write(r.Context(), b.read(elements, read))
	out, err := b.response()
	if failed := b.failure(); err == nil && failed != nil {
		s.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "part of a batch failed",
			slog.String("request_id", r.log.requestID), slog.String("Route", r.route.Name), slog.String("error", failed.Error()))
	}
	return out, err
}

// read reads each element like the body of a request. It returns those that can be
// written, by id and in their order, and notes what is wrong with the others.
func (b *batch) read(elements [][]byte, read func(element []byte) (batchWrite, error)) map[string][]batchWrite {
	byID := make(map[string][]batchWrite)
	for i, element := range elements {
		if len(element) > maxBodyBytes {
			b.note(i, api.BatchResult{}, payloadTooLarge("the "+b.noun, maxBodyBytes))
			continue
		}
		w, err := read(element)
		if kindOf(err) == record.Malformed { // the batch is well-formed JSON
			err = &record.Error{Kind: record.Invalid, Detail: "the " + b.noun + " must be a JSON object"}
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

// write stores records and notes the results. Those with the same id are stored in
// their order. If the service fails with one, those after it are not tried, so that
// repeating what failed keeps the order.
func (b *batch) write(ctx context.Context, byID map[string][]batchWrite) {
	var writers errgroup.Group
	writers.SetLimit(BatchWriters)
	for _, group := range byID {
		writers.Go(func() error {
			var failed error
			for _, w := range group {
				var result api.BatchResult
				if failed == nil {
					result, failed = w.try(ctx)
				}
				b.note(w.index, result, failed)
				if kind := kindOf(failed); kind == record.Conflict || kind == record.Invalid {
					failed = nil // concerns only this record
				}
			}
			return nil
		})
	}
	writers.Wait() //nolint:errcheck // the results have the errors
}

// try stores a record. A panic becomes an error: outside the request's goroutine it
// would end the process.
func (w batchWrite) try(ctx context.Context) (result api.BatchResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return w.store(ctx)
}

// kindOf returns the kind of a *record.Error, or 0 if err is not one.
func kindOf(err error) record.Kind {
	if failure, ok := errors.AsType[*record.Error](err); ok {
		return failure.Kind
	}
	return 0
}

// note notes the result of an element, or its error.
func (b *batch) note(index int, result api.BatchResult, err error) {
	if err != nil {
		p := asAPIError(err).problem("")
		result = api.BatchResult{Status: p.Status, Problem: &p}
	}
	result.Index = index
	b.results[index], b.errs[index] = result, err
}

// failure returns the faults of the service, joined, for the log, or nil without
// a fault.
func (b *batch) failure() error {
	var errs []error
	for _, r := range b.results {
		if r.Status >= http.StatusInternalServerError {
			errs = append(errs, fmt.Errorf("%s %d: %w", b.noun, r.Index, b.errs[r.Index]))
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
		b.trim()
		return response{status: status, body: api.Batch{Results: b.results}}, nil
	}
	first := b.results[0].Problem
	return response{}, &apiError{
		status: status, code: first.Code, results: b.results, retryAfter: status == http.StatusServiceUnavailable, cause: b.failure(),
		detail: "no " + b.noun + " was accepted; the results say why: " + first.Detail,
	}
}

// trim removes the last entities from the results if all together exceed the bytes of
// a page: an entity may be much larger than the change in the request.
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
