// Package client is the Go client of the service. It does what the service asks
// of clients: it stops when a limit is reached, retries with backoff what may
// succeed later, and gives up after a bounded number of tries. It also paces itself
// by the rate limit headers, so that it runs at the limits and rarely gets a 429.
//
// # Errors
//
// Every error of a call is an [*Error]; [errors.Is] with [ErrNotFound],
// [ErrConflict], [ErrRefused] and the errors of package context tells the usual
// ones apart. The only other error is that a request cannot be encoded as JSON.
//
// # Retries
//
// A call is retried after 429, after 408 and 5xx (other than 501 and 505), and
// when its response is lost, cut off or not what the API returns. All calls are
// safe to repeat: a record without an id gets a UUIDv7 before the first try, so
// that no repeat creates a second one. Every wait between two tries is at least
// what Retry-After says, and random beyond that: up to Config.MinBackoff after the
// first try, twice that after each further one, and never more than
// Config.MaxBackoff ("full jitter").
//
// A call makes at most Config.MaxTries requests, and returns at most
// Config.MaxElapsed after it sent the first. It gives up at once if Retry-After is
// longer than that. net/http itself repeats a GET that it sent on a connection that
// the service had closed while it was idle. That is safe, and it is not counted.
//
// # Pacing
//
// All goroutines that share a Client share what it knows about the limits. Before
// its first try a call waits until, by the headers of all responses so far, the
// limits have room for it. Only the context bounds that wait.
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

// Config tunes a Client. The zero value is ready to use: every field that is zero
// has the default that it names. No bound may be negative.
type Config struct {
	Key        string            // API key, slc_<id>_<secret>; no key is sent by default
	MaxTries   int               // maximum requests of one call; DefaultMaxTries by default
	MaxElapsed time.Duration     // maximum time from a call's first request to its end; DefaultMaxElapsed by default
	TryTimeout time.Duration     // maximum time for one request and its response; DefaultTryTimeout by default
	MinBackoff time.Duration     // maximum random wait after the first try; DefaultMinBackoff by default
	MaxBackoff time.Duration     // maximum random wait after any try; DefaultMaxBackoff by default
	Rate       int               // maximum requests a second of all calls; only the service's limits by default
	Transport  http.RoundTripper // a copy of http.DefaultTransport, with more idle connections, by default
	UserAgent  string            // "sluice-client" by default

	// OnTry, if set, is called after every try. It must be safe for concurrent use.
	OnTry func(Try)
}

// Try is one request of a call.
type Try struct {
	Route  string // such as create-event
	Number int    // of the call's tries, from 1
	Status int    // HTTP status; 0 without a response
	Err    *Error // nil if the try succeeded

	Wait time.Duration // until the next try, if the pacer lets it go at once; 0 if this was the last
}

// Client calls one service. It is safe for concurrent use by multiple goroutines,
// and should be shared: two Clients at one address do not know about each other's
// requests.
type Client struct {
	base *url.URL
	cfg  Config
	http *http.Client
	pace *pacer
}

// New returns a client of the service at a base URL, such as
// http://127.0.0.1:3000 or https://api.example.com/stage. It returns an error if the
// URL or a field of cfg is not valid. It sends nothing.
func New(baseURL string, cfg Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: the URL of the service: %w", err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("client: the URL of the service must be like https://host, not %q", baseURL)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("client: the URL of the service must have no user, query or fragment")
	case cfg.MaxTries < 0 || cfg.MaxElapsed < 0 || cfg.TryTimeout < 0 || cfg.MinBackoff < 0 || cfg.MaxBackoff < 0 || cfg.Rate < 0:
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
		// The API redirects nowhere: following would show the key to whoever is there.
		http: &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		pace: newPacer(cfg.Rate),
	}, nil
}

// call is one call of the API.
type call struct {
	route   route
	path    string
	query   url.Values
	body    []byte // JSON; nil for none
	records int64  // most records that the response can have
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

// charges returns what a call costs of each of its rules. Calls with the same last
// rule wait in line for each other.
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

// decode decodes the body of a response into out. A body that is not what the API
// returns counts as a lost response.
func decode(body []byte, out any) *Error {
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return &Error{Err: fmt.Errorf("the response cannot be read: %w", err), retryable: true}
	}
	return nil
}

// encode returns the body of a request. It does not change the bytes of attributes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return b.Bytes(), nil
}
