package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sluice/pkg/api"
)

// What one call of CreateEvents or UpsertEntities can hold.
const (
	MaxBatch      = 100     // records
	MaxBatchBytes = 1 << 20 // of the JSON around the records too
)

// BatchResult is the result of one record of a batch.
type BatchResult[T any] struct {
	Record  T     // as it is stored; the zero value if Err is not nil
	Created bool  // false if the service had it already
	Err     error // an *Error, or nil
}

// batch is a call for records of type N, which are stored as records of type T.
type batch[N, T any] struct {
	member  string // of the body, which has the records
	stored  func(api.BatchResult) *T
	records []N
	results []BatchResult[T]
	pending []int // indices of records without a final result
}

// sendBatch sends records, each with an id, in the body's array member to a route.
// stored returns the record of a result, or nil if a result lacks it. There is a
// result for each record, in order, even if there is an error. Only records that
// failed for a passing reason are sent again.
func sendBatch[N, T any](ctx context.Context, c *Client, k call, member string, records []N, stored func(api.BatchResult) *T) ([]BatchResult[T], error) {
	if len(records) == 0 {
		return nil, nil
	}
	b := &batch[N, T]{member: member, stored: stored, records: records, results: make([]BatchResult[T], len(records))}
	for i := range records {
		b.pending = append(b.pending, i)
	}
	var err error
	if k.body, err = b.encode(); err != nil {
		return b.results, err
	}
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		results, err := b.read(got.body)
		if err != nil {
			return cmp.Or(failure, &Error{Err: err, retryable: true})
		}
		failure = b.take(k.route.name, results, failure)
		k.body, _ = b.encode() // what could be encoded with others can be without them
		return failure
	})
	if err != nil {
		for _, index := range b.pending {
			b.results[index].Err = err
		}
	}
	return b.results, err
}

// encode returns the body for the pending records.
func (b *batch[N, T]) encode() ([]byte, error) {
	records := make([]N, len(b.pending))
	for i, index := range b.pending {
		records[i] = b.records[index]
	}
	return encode(map[string][]N{b.member: records})
}

// read returns the results that a response holds, whether it is a problem or not.
func (b *batch[N, T]) read(body []byte) ([]api.BatchResult, error) {
	var got api.Batch
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("the response cannot be read: %w", err)
	}
	if len(got.Results) != len(b.pending) {
		return nil, fmt.Errorf("the response has %d results for %d %s", len(got.Results), len(b.pending), b.member)
	}
	for i, r := range got.Results {
		if r.Index != i || r.Problem == nil && (r.Status >= http.StatusMultipleChoices || b.stored(r) == nil) {
			return nil, fmt.Errorf("result %d of the response is not one of %s", i, b.member)
		}
	}
	return got.Results, nil
}

// take notes the final results of the pending records. It returns the error for which
// the others, which are pending then, must be sent again, or nil. whole is the failure
// of the call, or nil.
func (b *batch[N, T]) take(route string, got []api.BatchResult, whole *Error) (failure *Error) {
	var left []int
	for i, index := range b.pending {
		r := got[i]
		if r.Problem == nil {
			b.results[index] = BatchResult[T]{Record: *b.stored(r), Created: r.Status == http.StatusCreated}
			continue
		}
		e := newError(r.Status, *r.Problem)
		e.Route, e.Tries = route, 1
		if whole != nil {
			e.RequestID, e.RetryAfter = whole.RequestID, whole.RetryAfter
		}
		if b.results[index].Err = e; e.retryable {
			left, failure = append(left, index), e
		}
	}
	b.pending = left
	return failure
}
