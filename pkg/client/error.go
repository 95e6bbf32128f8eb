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

// Error says why a call failed. Code, Detail and Fields are from the problem details in the
// response (RFC 9457), and may be empty if the Client itself found the error.
type Error struct {
	Route      string              // such as create-event
	Tries      int                 // number of requests sent
	Status     int                 // of the last response; 0 if there was none
	Code       string              // for programs, such as not_found
	Detail     string              // for people
	Fields     []record.FieldError // invalid fields of the request
	RetryAfter time.Duration       // how long the service asks to wait, at most one year; 0 if it does not say
	RequestID  string              // from the last response, to quote to the operator of the service; may be empty
	Err        error               // network, context or decoding error; otherwise nil

	// Quota is the policy of the quota that has no room for the request, such as records-month, and
	// QuotaEnds when that day or month ends; "" if no quota refused it.
	Quota     string
	QuotaEnds time.Time

	// CurrentRevision is the entity's revision, if it is not the one that a change was made for; 0
	// if there is no such entity.
	CurrentRevision int64

	retryable bool
	unknown   bool // whether e matches ErrUnknownOutcome; retryable is then false
}

// Errors that errors.Is finds in an *Error.
var (
	ErrNotFound         = errors.New("there is no such record")               // status 404, code not_found
	ErrConflict         = errors.New("the id exists with different content")  // status 409, code conflict
	ErrRevisionMismatch = errors.New("the entity has another revision")       // status 412, code revision_mismatch; nothing was changed
	ErrRefused          = errors.New("the service refused the request (429)") // status 429
	ErrOverQuota        = errors.New("the API key's quota has no room")       // status 429 too; Quota and QuotaEnds are set

	// ErrUnknownOutcome means that a change for a revision, or a new API key, may have been made. One of
	// its requests failed without saying whether it was, and the repeats did not tell either: if the
	// entity now has another revision, that may be due to this change.
	ErrUnknownOutcome = errors.New("the change may have been made")
)

// Is lets errors.Is recognize the errors above.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnknownOutcome:
		return e.unknown
	case ErrRevisionMismatch:
		return e.Status == http.StatusPreconditionFailed && e.Code == "revision_mismatch" && !e.unknown
	case ErrNotFound:
		return e.Status == http.StatusNotFound && e.Code == "not_found"
	case ErrConflict:
		return e.Status == http.StatusConflict && e.Code == "conflict"
	case ErrRefused:
		return e.Status == http.StatusTooManyRequests
	case ErrOverQuota:
		return e.Quota != ""
	}
	return false
}

// Retryable reports whether the same call may succeed later. If so, the Client gave up because
// it reached a limit in its Config. It is false for ErrUnknownOutcome, because the call may have
// succeeded already.
func (e *Error) Retryable() bool { return e.retryable }

// Rejected reports whether the service rejected the call for good, for example because the API
// key is invalid. The status is then 300 to 499 and not retryable. Rejected is false if the
// context ended the call.
func (e *Error) Rejected() bool {
	return 300 <= e.Status && e.Status < 500 && !e.retryable && !e.unknown && e.Err == nil
}

func (e *Error) Unwrap() error { return e.Err }

// Error returns a message with the route, the status, the reason and the request id.
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
	if e.unknown {
		b.WriteString(ErrUnknownOutcome.Error() + ": ")
	}
	switch {
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case e.Detail != "":
		b.WriteString(e.Detail)
	default:
		b.WriteString("the response does not say why")
	}
	if e.retryable && e.RetryAfter > 0 && e.Quota == "" {
		fmt.Fprintf(&b, "; the service asks to wait %s", e.RetryAfter.Round(time.Second))
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request id %s)", e.RequestID)
	}
	return b.String()
}

// ended returns e. If ctx is done, e.Err becomes the error of ctx, which is not retryable.
func (e *Error) ended(ctx context.Context) *Error {
	if err := ctx.Err(); err != nil {
		e.Err, e.retryable = err, false
	}
	return e
}

func errorOf(got response) *Error {
	var p struct {
		api.Problem
		Message string `json:"message"` // only in errors from API Gateway itself
	}
	err := json.Unmarshal(got.body, &p)
	switch p.Detail = cmp.Or(p.Detail, p.Message); {
	case got.status < http.StatusBadRequest:
		p.Detail = fmt.Sprintf("the service redirects to %q; the client does not follow redirects, so use the URL of the service itself", got.header.Get("Location"))
	case err != nil:
		p.Detail = fmt.Sprintf("the response is not an error of this API: %.200q", got.body)
	}
	p.Instance = cmp.Or(p.Instance, got.header.Get("Apigw-Requestid"))
	return newError(got.status, p.Problem)
}

func newError(status int, p api.Problem) *Error {
	retryable := status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported
	e := &Error{Status: status, Code: p.Code, Detail: p.Detail, Fields: p.Errors, RequestID: p.Instance, retryable: retryable}
	if p.CurrentRevision != nil {
		e.CurrentRevision = *p.CurrentRevision
	}
	return e
}

// maxRetryAfter caps the result of retryAfter, so that sums of durations do not overflow. No
// call waits that long.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter parses Retry-After, a number of seconds or a date (RFC 9110, section 10.2.3). It
// returns 0 if the header is absent or malformed.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // on ErrRange, seconds is the maximum uint64
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	// The Date header is from the same clock as Retry-After.
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
