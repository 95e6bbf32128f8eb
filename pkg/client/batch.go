package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sluice/pkg/api"
)

// Maximum size of a batch for CreateEvents or UpsertEntities.
const (
	MaxBatch      = 100     // records
	MaxBatchBytes = 1 << 20 // bytes of JSON in the request body
)

// BatchResult says what became of one record of a batch.
type BatchResult[T any] struct {
	Record  T     // as stored; zero if Err is not nil
	Created bool  // false if the record already existed
	Deleted bool  // whether there is no such entity now; Record then has only the ID
	Err     error // an *Error, or nil
}

// batch sends records of type N, which the service stores as records of type T.
type batch[N, T any] struct {
	member      string                   // name of the array in the request body
	stored      func(api.BatchResult) *T // returns the record in a result, or nil
	conditional func(N) bool             // whether a record is only for one revision
	records     []N                      // with ids
	results     []BatchResult[T]
	pending     []int        // indices of records without a final result
	unsure      map[int]bool // by index: whether a request that failed may have stored the record
}

// send sends the records to the route of k. It returns one result per record, in order, even if
// there is an error. Only records that failed with a retryable error are sent again.
func (b *batch[N, T]) send(ctx context.Context, c *Client, k call) ([]BatchResult[T], error) {
	if len(b.records) == 0 {
		return nil, nil
	}
	b.results, b.unsure = make([]BatchResult[T], len(b.records)), make(map[int]bool)
	for i := range b.records {
		b.pending = append(b.pending, i)
	}
	var err error
	if k.body, err = b.encode(); err != nil {
		return b.results, err
	}
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		results, err := b.read(got.body)
		if err != nil {
			failure = cmp.Or(failure, &Error{Err: err, retryable: true})
			for _, index := range b.pending {
				b.unsure[index] = b.unsure[index] || failure.unsure()
			}
			return failure
		}
		failure = b.take(k.route.name, results, failure)
		k.body, _ = b.encode() // cannot fail, because all records were encoded above
		return failure
	})
	return b.results, b.end(err)
}

// end gives the pending records their error, and returns that of the call.
func (b *batch[N, T]) end(err error) error {
	whole := err
	for _, index := range b.pending {
		b.results[index].Err = err
		if failure, ok := errors.AsType[*Error](err); ok && b.unsure[index] && b.conditional(b.records[index]) {
			whole = failure.asUnknown()
			b.results[index].Err = whole
		}
	}
	return whole
}

// encode returns the request body for the pending records.
func (b *batch[N, T]) encode() ([]byte, error) {
	records := make([]N, len(b.pending))
	for i, index := range b.pending {
		records[i] = b.records[index]
	}
	return encode(map[string][]N{b.member: records})
}

// read returns the results in a response body. The body of an error response may have results too.
func (b *batch[N, T]) read(body []byte) ([]api.BatchResult, error) {
	var got api.Batch
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("decode the response: %w", err)
	}
	if len(got.Results) != len(b.pending) {
		return nil, fmt.Errorf("the response has %d results for %d %s", len(got.Results), len(b.pending), b.member)
	}
	for i, r := range got.Results {
		if r.Index != i || r.Problem == nil && (r.Status >= http.StatusMultipleChoices || b.stored(r) == nil) {
			return nil, fmt.Errorf("result %d in the response is not a result for %s", i, b.member)
		}
	}
	return got.Results, nil
}

// take stores the results of the pending records. Records that failed with a retryable error
// stay pending. take returns the last such error, or nil if no record is pending. whole is the
// error of the response as a whole, or nil.
func (b *batch[N, T]) take(route string, got []api.BatchResult, whole *Error) (failure *Error) {
	var left []int
	for i, index := range b.pending {
		r := got[i]
		if r.Problem == nil {
			b.results[index] = BatchResult[T]{Record: *b.stored(r), Created: r.Status == http.StatusCreated, Deleted: r.Deleted}
			continue
		}
		e := newError(r.Status, *r.Problem)
		e.Route, e.Tries = route, 1
		if whole != nil {
			e.RequestID, e.RetryAfter = whole.RequestID, whole.RetryAfter
		}
		b.unsure[index] = b.unsure[index] || e.unsure()
		if errors.Is(e, ErrRevisionMismatch) && b.unsure[index] {
			e = e.asUnknown()
		}
		if b.results[index].Err = e; e.retryable {
			left, failure = append(left, index), e
		}
	}
	b.pending = left
	return failure
}
