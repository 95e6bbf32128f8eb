package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

// Error describes why a call failed. Error.Is finds ErrNotFound, ErrConflict and
// ErrRefused, and Unwrap the error of the network or of the context.
type Error struct {
	Route      string              // such as create-event
	Tries      int                 // requests that were sent
	Status     int                 // HTTP status of the last response; 0 without a response
	Code       string              // of the problem: stable, for programs; "" if the response was not a problem
	Detail     string              // of the problem: what to change
	Fields     []record.FieldError // of the problem: what is wrong with which field
	RetryAfter time.Duration       // how long the last response asked to wait; 0 if it did not, a year at most
	RequestID  string              // of the last response, for a report to whoever runs the service; may be ""
	Err        error               // why no response was received or could be read; nil otherwise

	retryable bool
}

// Errors that errors.Is finds in an *Error.
var (
	ErrNotFound = errors.New("there is no such record")               // status 404, code not_found
	ErrConflict = errors.New("the id is taken by other content")      // status 409, code conflict
	ErrRefused  = errors.New("the service refused it for its limits") // status 429
)

// Is makes errors.Is find ErrNotFound, ErrConflict and ErrRefused.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound && e.Code == "not_found"
	case ErrConflict:
		return e.Status == http.StatusConflict && e.Code == "conflict"
	case ErrRefused:
		return e.Status == http.StatusTooManyRequests
	}
	return false
}

// Retryable reports whether the same call may succeed later. The Client gave up
// because it reached a bound of its Config.
func (e *Error) Retryable() bool { return e.retryable }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Error returns the route, the status, why the call failed, and the request id.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Route != "" {
		b.WriteString(e.Route + ": ")
	}
	if e.retryable && e.Tries > 1 {
		fmt.Fprintf(&b, "gave up after %d tries: ", e.Tries)
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, "status %d: ", e.Status)
	}
	switch {
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case e.Detail != "":
		b.WriteString(e.Detail)
	default:
		b.WriteString("the response does not say why")
	}
	if e.retryable && e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; it asks to wait %s", e.RetryAfter.Round(time.Second))
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request id %s)", e.RequestID)
	}
	return b.String()
}

// ended returns e, and makes it say so if the reason is that ctx is done.
func (e *Error) ended(ctx context.Context) *Error {
	if err := ctx.Err(); err != nil {
		e.Err, e.retryable = err, false
	}
	return e
}

// errorOf returns the error that a response of status 300 or above describes.
func errorOf(got response) *Error {
	var p struct {
		api.Problem
		Message string `json:"message"` // of API Gateway's own errors
	}
	err := json.Unmarshal(got.body, &p)
	switch p.Detail = cmp.Or(p.Detail, p.Message); {
	case got.status < http.StatusBadRequest:
		p.Detail = fmt.Sprintf("it redirects to %q, which is not followed; if that is the service, use its URL", got.header.Get("Location"))
	case err != nil:
		p.Detail = fmt.Sprintf("the response is not a problem of this API: %.200q", got.body)
	}
	p.Instance = cmp.Or(p.Instance, got.header.Get("Apigw-Requestid"))
	return newError(got.status, p.Problem)
}

// newError returns the error of a status of 300 or above and a problem.
func newError(status int, p api.Problem) *Error {
	retryable := status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
	return &Error{Status: status, Code: p.Code, Detail: p.Detail, Fields: p.Errors, RequestID: p.Instance, retryable: retryable}
}

// maxRetryAfter is the longest wait that retryAfter returns. A longer one makes no
// difference, and the bound keeps sums of durations from overflowing.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter returns the wait that a Retry-After header asks for, in seconds or as a
// date (RFC 9110, section 10.2.3), or 0.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // which leaves the largest number
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	// The date is by the server's clock, and so is the header Date.
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
