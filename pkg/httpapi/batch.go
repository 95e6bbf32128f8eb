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

// importing is how a route stores a batch of records, a JSON object with one array, such as
// {"events": […]}. D is a decoded element.
type importing[D any] struct {
	noun, plural string                                                     // such as "event" and "events"
	read         func(element []byte) (id string, d D, err error)           // decodes and validates an element
	prepare      func(ctx context.Context, ids []string) error              // called before the first write; may be nil
	store        func(ctx context.Context, id string, drafts []D) []outcome // stores the elements with one id, in their order
}

// outcome is what became of an element. The Index of its result is not set.
type outcome struct {
	result api.BatchResult
	err    error
}

// element is a valid element of a batch.
type element[D any] struct {
	index int
	draft D
}

// run stores the records in the body of r.
func (i importing[D]) run(s *service, r *request) (response, error) {
	var elements [][]byte
	if err := (record.Decoders{i.plural: record.Array(&elements, MaxBatch)}).Decode(r.body); err != nil {
		return response{}, err
	}
	if elements == nil {
		return response{}, record.Fields{{Field: i.plural, Detail: fmt.Sprintf("is required: an array of 1 to %d %s", MaxBatch, i.plural)}}.Err()
	}
	b := &batch{noun: i.noun, results: make([]api.BatchResult, len(elements)), errs: make([]error, len(elements))}
	byID := i.readAll(b, elements)
	var err error
	if i.prepare != nil && len(byID) > 0 {
		err = i.prepare(r.Context(), slices.Collect(maps.Keys(byID)))
	}
	if err != nil {
		for _, group := range byID {
			for _, e := range group {
				b.note(e.index, outcome{err: err})
			}
		}
	} else {
		i.write(r.Context(), b, byID, s.stores.BatchWriters)
	}
	out, err := b.response()
	if failed := b.failure(); err == nil && failed != nil {
		s.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelError, "part of a batch failed",
			slog.String("request_id", r.id), slog.String("Route", r.route.Name), slog.String("error", failed.Error()))
	}
	return out, err
}

// readAll returns the valid elements, grouped by record id and in the order of the batch. It notes
// the errors of the invalid elements.
func (i importing[D]) readAll(b *batch, elements [][]byte) map[string][]element[D] {
	byID := make(map[string][]element[D])
	for at, text := range elements {
		if len(text) > maxBodyBytes {
			b.note(at, outcome{err: payloadTooLarge("the "+b.noun, maxBodyBytes)})
			continue
		}
		id, d, err := i.read(text)
		if record.CodeOf(err) == record.Malformed { // the element is malformed, but the batch as a whole is JSON
			err = &record.Error{Code: record.Invalid, Detail: "the " + b.noun + " must be a JSON object"}
		}
		if err != nil {
			b.note(at, outcome{err: err})
			continue
		}
		byID[id] = append(byID[id], element[D]{at, d})
	}
	return byID
}

// write stores the groups, up to writers at once, and notes the results.
func (i importing[D]) write(ctx context.Context, b *batch, byID map[string][]element[D], writers int) {
	var calls errgroup.Group
	calls.SetLimit(writers)
	for id, group := range byID {
		calls.Go(func() error {
			for n, o := range i.try(ctx, id, group) {
				b.note(group[n].index, o)
			}
			return nil
		})
	}
	calls.Wait() //nolint:errcheck // b.errs has the errors
}

// try stores a group. It turns a panic into an error, because a panic outside the request's own
// goroutine would end the process.
func (i importing[D]) try(ctx context.Context, id string, group []element[D]) (outcomes []outcome) {
	var err error
	defer func() {
		if err != nil {
			outcomes = slices.Repeat([]outcome{{err: err}}, len(group))
		}
	}()
	defer recovered(&err)
	drafts := make([]D, len(group))
	for n, e := range group {
		drafts[n] = e.draft
	}
	return i.store(ctx, id, drafts)
}

// batch has the results of up to MaxBatch records. Those with different ids are written
// separately, so some may fail while others are stored. A client can safely repeat the whole batch.
type batch struct {
	noun    string // "entity" or "event", for error messages
	results []api.BatchResult
	errs    []error // one per element, nil if the element was stored
}

func (b *batch) note(index int, o outcome) {
	result := o.result
	if o.err != nil {
		p := asAPIError(o.err).problem("")
		result = api.BatchResult{Status: p.Status, Problem: &p}
	}
	result.Index = index
	b.results[index], b.errs[index] = result, o.err
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
