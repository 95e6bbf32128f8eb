package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

type response struct {
	status int // 0 if there was no response
	header http.Header
	body   []byte
}

// repeat sends k until the call succeeds, fails for good or runs out of tries or time. After each
// try, it calls read with the response and the failure, which is nil if the response is complete
// and its status is below 300. read returns nil if the call has succeeded, and otherwise the
// failure. read may change k for the next try.
func (c *Client) repeat(ctx context.Context, k *call, read func(response, *Error) *Error) error {
	costs, sent, failure := c.admit(ctx, k)
	if failure != nil {
		return failure
	}
	tries := retries{cfg: c.cfg, deadline: time.Now().Add(c.cfg.MaxElapsed)}
	bounded, cancel := context.WithDeadline(ctx, tries.deadline)
	defer cancel()
	for {
		got, failure := c.try(bounded, *k, costs, sent)
		failure = read(got, failure)
		tries.count++
		if failure != nil {
			failure.Route, failure.Tries = k.route.name, tries.count
			failure.Status = cmp.Or(failure.Status, got.status)
		}
		unsure := k.changes() && failure.unsure()
		if unsure && k.once {
			failure.retryable, failure.unknown = false, true
		}
		wait, again := tries.next(ctx, failure)
		c.cfg.OnTry(Try{Route: k.route.name, Number: tries.count, Status: got.status, Err: failure, Unsure: unsure, Wait: wait})
		if failure == nil {
			return nil
		}
		if !again || !sleep(ctx, wait) {
			return failure.ended(ctx)
		}
		var late *Error
		if costs, sent, late = c.admit(bounded, k); late != nil {
			return failure.ended(ctx)
		}
	}
}

// try sends one request. sent is when the pacer admitted it. failure is nil only if the
// response is complete and its status is below 300.
func (c *Client) try(ctx context.Context, k call, costs []cost, sent time.Duration) (got response, failure *Error) {
	if c.cfg.FinishTry && k.changes() {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
	defer cancel()
	began := time.Now()
	got, failure = c.send(ctx, k)
	c.pace.leave(costs, sent, got.status, got.header)
	c.noteDate(got.header)
	if other := c.checkSource(got.header); other != nil {
		return got, other
	}
	switch {
	case failure != nil && ctx.Err() != nil:
		failure = &Error{Err: fmt.Errorf("no complete response within %s: %w", time.Since(began).Round(time.Millisecond), ctx.Err()), retryable: true}
	case failure == nil && got.status >= http.StatusMultipleChoices:
		failure = errorOf(got)
	}
	if failure != nil {
		failure.RetryAfter = retryAfter(got.header, time.Now())
	}
	if q, ok := quotaIn(got.header); ok && got.status == http.StatusTooManyRequests {
		failure.Quota, failure.QuotaEnds = q.policy, q.ends
	}
	return got, failure
}

// maxResponseBytes is well above the 6 MB that a Lambda function can return.
const maxResponseBytes = 16 << 20

// send returns the status and header even if the body cannot be read.
func (c *Client) send(ctx context.Context, k call) (got response, failure *Error) {
	u := *c.base
	u.Path += k.path
	u.RawQuery = k.query.Encode()
	req, err := http.NewRequestWithContext(ctx, k.route.method, u.String(), bytes.NewReader(k.body))
	if err != nil {
		return response{}, &Error{Err: err}
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return response{}, &Error{Err: fmt.Errorf("no response: %w", err), retryable: true}
	}
	defer resp.Body.Close() //nolint:errcheck // what is needed has been read
	got = response{status: resp.StatusCode, header: resp.Header}
	got.body, err = io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		failure = &Error{Err: fmt.Errorf("read the response: %w", err), retryable: true}
	case len(got.body) > maxResponseBytes:
		failure = &Error{Err: fmt.Errorf("the response is larger than %d bytes", maxResponseBytes)}
	}
	return got, failure
}

type retries struct {
	cfg      Config
	count    int       // tries so far
	deadline time.Time // when MaxElapsed is over
}

// next reports whether to try again, and after how long. again is false if failure is nil or not
// retryable, if no tries or too little time is left, or if ctx is done.
func (r *retries) next(ctx context.Context, failure *Error) (wait time.Duration, again bool) {
	if failure == nil || ctx.Err() != nil || !failure.retryable || r.count >= r.cfg.MaxTries {
		return 0, false
	}
	wait = failure.RetryAfter + r.cfg.backoff(r.count)
	if wait >= time.Until(r.deadline) {
		return 0, false
	}
	return wait, true
}

// backoff returns the random part of a wait. tries is how many tries the call has made.
func (cfg Config) backoff(tries int) time.Duration {
	most := cfg.MaxBackoff
	if doublings := tries - 1; doublings < 32 && cfg.MinBackoff<<doublings < most {
		most = cfg.MinBackoff << doublings
	}
	return rand.N(most + 1)
}

// sleep returns false if ctx is done.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
