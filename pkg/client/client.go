// Package client is the Go client of the service. It does what the service asks
// of clients: it stops when it is told that a limit is reached, repeats with
// back-off what may succeed later, gives up in the end, and keeps to the limits
// by itself, so that it runs at them and rarely meets a 429.
//
// # Repeats
//
// A call is tried again after 429, after 408 and 5xx (other than 501 and 505),
// and when its answer is lost, cut off or not what the API answers. All calls
// are safe to repeat: records that are given no id get a UUIDv7 before the
// first try, so that no repeat can double them. Every wait between two tries is
// at least what Retry-After says, and random beyond that: up to
// Config.MinBackoff after the first try, twice that after each further one, and
// never more than Config.MaxBackoff ("full jitter").
//
// A call makes at most Config.MaxTries requests, and returns at most
// Config.MaxElapsed after it sent the first. It gives up early when it is told
// to wait for longer than that. One thing happens beneath that: net/http itself
// sends a GET once more that met a connection which the service had closed
// while it was idle, and nothing came back. That is safe, no wait is due, and it is not counted.
//
// # Pace
//
// All goroutines that share a Client share what it knows of the limits. A call
// waits its turn until the limits have room for it by the headers of all
// answers so far; that wait comes before the first try, and only the context
// bounds it. See pacer for how.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Defaults of Config.
const (
	DefaultMaxTries   = 8
	DefaultMaxElapsed = time.Minute
	DefaultTryTimeout = 15 * time.Second
	DefaultMinBackoff = 100 * time.Millisecond
	DefaultMaxBackoff = 5 * time.Second
)

// maxAnswerBytes bounds what is read of an answer. A function may answer 6 MB.
const maxAnswerBytes = 16 << 20

// Config tunes a Client. The zero value is ready to use.
type Config struct {
	Key        string            // API key; "" sends none
	MaxTries   int               // most requests of one call; DefaultMaxTries by default
	MaxElapsed time.Duration     // most time from a call's first request to its end; DefaultMaxElapsed by default
	TryTimeout time.Duration     // most time for one request and its answer; DefaultTryTimeout by default
	MinBackoff time.Duration     // most random wait after the first try; DefaultMinBackoff by default
	MaxBackoff time.Duration     // most random wait after any try; DefaultMaxBackoff by default
	Transport  http.RoundTripper // a copy of http.DefaultTransport, with more idle connections, by default
	UserAgent  string            // "sluice-client" by default

	// OnTry, if set, is called after every try. It must be safe for concurrent use.
	OnTry func(Try)
}

// Try is one request of a call.
type Try struct {
	Route  string // such as create-event
	Number int    // of the call's tries, from 1
	Status int    // of the answer; 0 when there was none
	Err    error  // nil when the call has its answer
}

// Client calls one service. It is safe for concurrent use, and meant to be
// shared: two Clients at one address do not know of each other's requests.
type Client struct {
	base *url.URL
	cfg  Config
	http *http.Client
	pace *pacer
}

// New makes a client of the service at a base URL, such as
// http://127.0.0.1:3000. It fails when the URL or a field of cfg cannot be used.
func New(baseURL string, cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: the URL of the service: %w", err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("client: the URL of the service must be like https://host, not %q", baseURL)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("client: the URL of the service must have no user, query or fragment")
	case cfg.MaxTries < 0 || cfg.MaxElapsed < 0 || cfg.TryTimeout < 0 || cfg.MinBackoff < 0 || cfg.MaxBackoff < 0:
		return nil, errors.New("client: no bound may be negative")
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("client: the key must be printable ASCII without spaces")
	}
	cfg.MaxTries = cmp.Or(cfg.MaxTries, DefaultMaxTries)
	cfg.MaxElapsed = cmp.Or(cfg.MaxElapsed, DefaultMaxElapsed)
	cfg.TryTimeout = cmp.Or(cfg.TryTimeout, DefaultTryTimeout)
	cfg.MinBackoff = cmp.Or(cfg.MinBackoff, DefaultMinBackoff)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, DefaultMaxBackoff)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "sluice-client")
	if cfg.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = transport.MaxIdleConns
		cfg.Transport = transport
	}
	return &Client{
		base: base,
		cfg:  cfg,
		// The API redirects nowhere: following would show the key to whoever is there.
		http: &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		pace: newPacer(),
	}, nil
}

// call is what a method asks for.
type call struct {
	route   route
	path    string
	query   url.Values
	body    []byte // JSON; nil for none
	records int64  // most records that the answer can show
}

// route is a row of the service's route table.
type route struct {
	name   string
	method string
	class  string // one of these
}

// The classes of routes, as the rule that each shares.
const (
	imports = "imports"
	exports = "records"
	general = "" // none
)

// charges are what a call costs of each of its rules.
func (k call) charges() []charge {
	charges := []charge{{rule: "requests", key: "requests " + k.route.name, cost: 1}}
	switch k.route.class {
	case imports:
		charges = append(charges, charge{rule: imports, key: imports, cost: 1})
	case exports:
		charges = append(charges, charge{rule: exports, key: exports, cost: k.records})
	}
	return charges
}

// do makes a call and decodes its answer into out.
func (c *Client) do(ctx context.Context, k call, out any) (status int, err error) {
	a := attempts{client: c, call: k}
	err = a.run(ctx, func(answer answer, failure *Error) *Error {
		status = answer.status
		if failure == nil {
			failure = decode(answer.body, out)
		}
		return failure
	})
	return status, err
}

// decode reads an answer. One that is not as the API answers is as good as lost.
func decode(body []byte, out any) *Error {
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &Error{Err: fmt.Errorf("the answer cannot be read: %w", err), retryable: true}
	}
	return nil
}

// encode writes a body. Strings of attributes go out as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return b.Bytes(), nil
}

// attempts are the tries of one call.
type attempts struct {
	client *Client
	call   call
	tries  int
	first  time.Time // when the first try was sent
	last   *Error    // why the latest try failed
}

// answer is the service's answer to one request.
type answer struct {
	status int // 0 without an answer
	header http.Header
	body   []byte
}

// run tries the call until it succeeds or a bound is reached. read is given each
// answer, with the failure that its status or its absence is, and returns why
// the call is to be tried again, or ends; nil if it has what was asked for.
func (a *attempts) run(ctx context.Context, read func(answer, *Error) *Error) error {
	for {
		got, failure, err := a.try(ctx)
		if err != nil {
			return err
		}
		failure = read(got, failure)
		a.note(got.status, failure)
		if failure == nil {
			return nil
		}
		if failure.Status == 0 {
			failure.Status = got.status
		}
		a.last = failure
		if err := a.pause(ctx); err != nil {
			return err
		}
	}
}

// try sends the request once, when the limits have room for it, and reads its
// answer to the end. The failure is nil for a status below 300. The error ends
// the call: nothing was sent.
func (a *attempts) try(ctx context.Context) (got answer, failure *Error, err error) {
	c := a.client
	left := c.cfg.MaxElapsed
	within := ctx
	if a.tries > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadline(ctx, a.first.Add(c.cfg.MaxElapsed))
		defer cancel()
	}
	t, err := c.pace.enter(within, a.call.route, a.call.charges(), left)
	switch {
	case err != nil && ctx.Err() != nil:
		return answer{}, nil, a.end(ctx.Err())
	case err != nil && a.last != nil:
		return answer{}, nil, a.end(nil)
	case err != nil:
		a.last = asError(err)
		return answer{}, nil, a.end(nil)
	}
	if a.tries == 0 {
		a.first = time.Now()
	}
	a.tries++
	left = min(c.cfg.TryTimeout, left-time.Since(a.first))
	tryCtx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	got, err = c.send(tryCtx, a.call)
	c.pace.leave(t, got.status, got.header)
	switch {
	case err == nil && got.status < http.StatusMultipleChoices:
		return got, nil, nil
	case err == nil:
		return got, errorOf(got), nil
	case tryCtx.Err() != nil:
		err = &Error{Err: fmt.Errorf("no whole answer within %s: %w", left.Round(time.Millisecond), tryCtx.Err()), retryable: true}
	}
	failure = asError(err)
	failure.Status, failure.RetryAfter = got.status, retryAfter(got.header, time.Now())
	return got, failure, nil
}

// send makes one request and reads its answer. Status and header are there even
// when the body is not.
func (c *Client) send(ctx context.Context, k call) (got answer, err error) {
	u := *c.base
	u.Path += k.path
	u.RawQuery = k.query.Encode()
	req, err := http.NewRequestWithContext(ctx, k.route.method, u.String(), bytes.NewReader(k.body))
	if err != nil {
		return answer{}, &Error{Err: err}
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
		return answer{}, &Error{Err: fmt.Errorf("no answer: %w", err), retryable: true}
	}
	got = answer{status: resp.StatusCode, header: resp.Header}
	got.body, err = readAnswer(resp)
	return got, err
}

// note reports a try.
func (a *attempts) note(status int, failure *Error) {
	if a.client.cfg.OnTry == nil {
		return
	}
	t := Try{Route: a.call.route.name, Number: a.tries, Status: status}
	if failure != nil {
		t.Err = failure
	}
	a.client.cfg.OnTry(t)
}

// pause waits until the call may be tried once more. Its error ends the call:
// the last failure is final, or a bound is reached.
func (a *attempts) pause(ctx context.Context) error {
	cfg := a.client.cfg
	if err := ctx.Err(); err != nil {
		return a.end(err)
	}
	if !a.last.retryable || a.tries >= cfg.MaxTries {
		return a.end(nil)
	}
	wait := a.last.RetryAfter + cfg.backoff(a.tries)
	if time.Since(a.first)+wait >= cfg.MaxElapsed {
		return a.end(nil)
	}
	if err := sleep(ctx, wait); err != nil {
		return a.end(err)
	}
	return nil
}

// backoff is the random wait after a number of tries in vain.
func (cfg Config) backoff(tries int) time.Duration {
	most := cfg.MaxBackoff
	if doublings := tries - 1; doublings < 32 && cfg.MinBackoff<<doublings < most {
		most = cfg.MinBackoff << doublings
	}
	return rand.N(most + 1)
}

// sleep waits. It fails when ctx is done before.
func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end is the error of a call that ends without success: what the last try met,
// or, with the context's error, that.
func (a *attempts) end(cause error) error {
	e := Error{retryable: true}
	if a.last != nil {
		e = *a.last
	}
	if cause != nil {
		e.Err, e.retryable = cause, false
	}
	e.Route, e.Tries = a.call.route.name, a.tries
	return &e
}
