// Package client is the Go client of the service. It stops sending requests when a
// limit is reached, retries failed calls with backoff, and gives up after a bounded
// number of tries. It also paces its requests by the rate limit headers, so that it
// uses the whole limit and rarely gets status 429.
//
// # Errors
//
// Every error of a call is an [*Error]. The only exception is the error for a request
// that cannot be encoded as JSON. To recognize an error, call [errors.Is] with
// [ErrNotFound], [ErrConflict], [ErrRefused], [context.Canceled] or
// [context.DeadlineExceeded].
//
// # Retries
//
// A call is retried after status 408, 429 and 5xx, except 501 and 505. It is also
// retried if its response is lost or incomplete, or if the response has a status below
// 300 and a body that cannot be decoded. All calls are safe to repeat: a new record
// without an id gets a UUIDv7 before the first try, so a retry cannot create a second
// record.
//
// The wait before a retry is the value of Retry-After plus a random time. The random
// time is at most Config.MinBackoff after the first try. Its maximum doubles after
// each further try, up to Config.MaxBackoff ("full jitter").
//
// A call makes at most Config.MaxTries requests, and returns at most
// Config.MaxElapsed after it sent the first request. It gives up at once if
// Retry-After exceeds the remaining time. If the service closes an idle connection,
// net/http itself may repeat a GET request. That is safe and does not count as a
// try.
//
// # Pacing
//
// All goroutines that share a Client share its knowledge of the limits. Before its
// first try, a call waits until the limits have room for it, according to the
// headers of all responses so far. Only the context limits that wait. However, if an
// earlier Retry-After requires a wait of more than Config.MaxElapsed, the call fails at
// once.
//
// A Client stops at Config.Share of a limit, whoever has used it, and spreads its requests
// over the second, so that other programs at the same address are not refused. A list asks
// for no more records than the share has left, so a page may be shorter than the Limit of
// its query, even if it is not the last one.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Default values of the fields of Config.
const (
	DefaultMaxTries   = 8
	DefaultMaxElapsed = time.Minute
	DefaultTryTimeout = 15 * time.Second
	DefaultMinBackoff = 100 * time.Millisecond
	DefaultMaxBackoff = 5 * time.Second
	DefaultShare      = 0.9
)

// Config tunes a Client. The zero value is ready to use. If a field is zero, the default in
// its comment applies. Numbers and durations must not be negative.
type Config struct {
	Key        string            // API key, slc_<id>_<secret>; by default no key is sent
	MaxTries   int               // maximum number of requests per call; DefaultMaxTries by default
	MaxElapsed time.Duration     // maximum duration of a call, starting with its first request; DefaultMaxElapsed by default
	TryTimeout time.Duration     // maximum time for one request and its response; DefaultTryTimeout by default
	MinBackoff time.Duration     // upper bound of the random wait after the first try; DefaultMinBackoff by default
	MaxBackoff time.Duration     // upper bound of the random wait after any try; DefaultMaxBackoff by default
	Rate       int               // maximum number of requests per second, over all calls; unlimited by default
	Share      float64           // part of each limit that may be used, by this Client and others together, above 0 and at most 1; DefaultShare by default
	Transport  http.RoundTripper // by default a copy of http.DefaultTransport with more idle connections
	UserAgent  string            // value of the User-Agent header; "sluice-client" by default

	// OnTry, if not nil, is called after every try. It must be safe for
	// concurrent use.
	OnTry func(Try)
}

// Try describes one request of a call.
type Try struct {
	Route  string // name of the route, such as create-event
	Number int    // number of the try within its call, from 1
	Status int    // HTTP status; 0 if no response was received
	Err    *Error // why the try failed; nil if it succeeded

	// Wait is the time until the next try, or 0 if this try is the last one.
	// Pacing may extend it.
	Wait time.Duration
}

// Client calls one service. It is safe for concurrent use. Programs should share one
// Client, because two Clients at the same address do not know about each other's
// requests.
type Client struct {
	base *url.URL
	cfg  Config
	http *http.Client
	pace *pacer

	source atomic.Pointer[string] // result of Source; nil before
}

// New returns a Client of the service at baseURL, such as http://127.0.0.1:3000 or
// https://api.example.com/stage. It returns an error if the URL or a field of cfg is
// not valid. New sends no request.
func New(baseURL string, cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: parse the URL of the service: %w", err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("client: the URL of the service must be like https://host, not %q", baseURL)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("client: the URL of the service must have no user, query or fragment")
	case cfg.MaxTries < 0 || cfg.MaxElapsed < 0 || cfg.TryTimeout < 0 || cfg.MinBackoff < 0 || cfg.MaxBackoff < 0 || cfg.Rate < 0:
		return nil, errors.New("client: numbers and durations in Config must not be negative")
	case !(0 <= cfg.Share && cfg.Share <= 1):
		return nil, errors.New("client: the share in Config must be above 0 and at most 1")
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("client: the API key must be printable ASCII without spaces")
	}
	cfg.MaxTries = cmp.Or(cfg.MaxTries, DefaultMaxTries)
	cfg.MaxElapsed = cmp.Or(cfg.MaxElapsed, DefaultMaxElapsed)
	cfg.TryTimeout = cmp.Or(cfg.TryTimeout, DefaultTryTimeout)
	cfg.MinBackoff = cmp.Or(cfg.MinBackoff, DefaultMinBackoff)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, DefaultMaxBackoff)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "sluice-client")
	if cfg.OnTry == nil {
		cfg.OnTry = func(Try) {}
	}
	if cfg.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = transport.MaxIdleConns
		cfg.Transport = transport
	}
	return &Client{
		base: base,
		cfg:  cfg,
		// The API never redirects, and another host must not receive the API key.
		http: &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		pace: newPacer(cmp.Or(cfg.Share, DefaultShare), cfg.Rate),
	}, nil
}

// call is one call of the API.
type call struct {
	route   route
	path    string
	query   url.Values
	body    []byte // JSON; nil if the request has no body
	records int64  // the most records that the response can have; 0 to leave it to the pacer
	paced   bool   // whether the pacer sets the limit of the list
}

// route is a route of the service.
type route struct {
	name   string
	method string
	class  string // imports, exports or general
}

// The classes of routes. The value of a class is the name of the rule that all its
// routes share.
const (
	imports = "imports"
	exports = "records"
	general = "" // no shared rule
)

// charges returns one charge for each rule that applies to the call. The last one selects the
// queue (rule.line) in which the call waits.
func (k call) charges() []charge {
	charges := []charge{{rule: "requests", key: "requests " + k.route.name, cost: 1}}
	switch k.route.class {
	case imports:
		charges = append(charges, charge{rule: imports, key: imports, cost: 1})
	case exports:
		charges = append(charges, charge{rule: exports, key: exports, cost: cmp.Or(k.records, maxPage), step: k.records == 0})
	}
	return charges
}

// admit waits until the limits have room for a request of k. The charges are those with which
// the request was admitted; if k is a list, it asks for as many records.
func (c *Client) admit(ctx context.Context, k *call) (charges []charge, sent time.Duration, failure *Error) {
	charges = k.charges()
	if sent, failure = c.pace.enter(ctx, charges, c.cfg.MaxElapsed); failure != nil {
		failure.Route = k.route.name
		return nil, 0, failure
	}
	if k.paced {
		k.query.Set("limit", strconv.FormatInt(charges[len(charges)-1].cost, 10))
	}
	return charges, sent, nil
}

// do makes a call and decodes its response into out.
func (c *Client) do(ctx context.Context, k call, out any) (status int, err error) {
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		status = got.status
		if failure == nil {
			failure = decode(got.body, out)
		}
		return failure
	})
	return status, err
}

// decode decodes the body of a response into out. The error for a body that cannot
// be decoded is retryable, like the error for a lost response.
func decode(body []byte, out any) *Error {
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &Error{Err: fmt.Errorf("decode the response: %w", err), retryable: true}
	}
	return nil
}

// encode returns v in JSON. It does not escape HTML characters in attributes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return b.Bytes(), nil
}
