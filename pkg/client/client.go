// Package client is a Go client for the service. It paces its requests by the rate limit
// headers, so that it uses nearly all of a limit but rarely gets status 429. It retries failed
// calls with backoff, up to a maximum number of tries and a maximum time.
//
// # Errors
//
// Every error from a call is an [*Error], unless the request cannot be encoded as JSON.
// [errors.Is] recognizes [ErrNotFound], [ErrConflict], [ErrRevisionMismatch],
// [ErrUnknownOutcome], [ErrRefused], [ErrOverQuota], [context.Canceled] and
// [context.DeadlineExceeded].
//
// # Retries
//
// A call is retried after status 408, 429 or 5xx, except 501 and 505. It is also retried after
// a lost or incomplete response, and after a response with a status below 300 whose body
// cannot be decoded. All calls are safe to repeat: a new record without an id gets a UUIDv7
// before the first try, so a retry cannot create a second record, and a change for a revision is
// made at most once. The exception is CreateAPIKey.
//
// The wait before a retry is Retry-After plus a random time ("full jitter"). The maximum of
// the random time is Config.MinBackoff after the first try, and doubles with each further try,
// up to Config.MaxBackoff.
//
// A call makes at most Config.MaxTries requests and returns at most Config.MaxElapsed after the
// first request. It returns immediately if Retry-After exceeds the time that is left. If the
// service closes an idle connection, net/http itself may repeat a GET request, which is safe
// and does not count as a try.
//
// # Pacing
//
// All goroutines that share a Client share its knowledge of the limits. Before its first try,
// a call waits until the limits have room for it, according to all responses so far. Only the
// context bounds that wait, but a call fails immediately if an earlier Retry-After requires it
// to wait longer than Config.MaxElapsed.
//
// No call waits for the next day or month. If the quota of the API key has no room, a call fails
// with [ErrOverQuota]; so do calls in the following minute, without a request.
//
// A Client waits for the next second when Config.Share of a limit is used, no matter by whom. It
// also spreads its requests over the second, so that other programs at the same address are not
// refused. A list never requests more records than the share has left, so a page may be shorter
// than its query's Limit even if it is not the last page.
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

const (
	DefaultMaxTries   = 8
	DefaultMaxElapsed = time.Minute
	DefaultTryTimeout = 15 * time.Second
	DefaultMinBackoff = 100 * time.Millisecond
	DefaultMaxBackoff = 5 * time.Second
	DefaultShare      = 0.9
)

// Config tunes a Client. A zero field means the default. Numbers and durations must not be
// negative.
type Config struct {
	Key        string            // API key, slc_<id>_<secret>; none by default
	MaxTries   int               // requests per call; DefaultMaxTries by default
	MaxElapsed time.Duration     // time limit for a call, from its first request; DefaultMaxElapsed by default
	TryTimeout time.Duration     // time limit for one request and its response; DefaultTryTimeout by default
	MinBackoff time.Duration     // maximum of the random wait after the first try; DefaultMinBackoff by default
	MaxBackoff time.Duration     // maximum of any random wait; DefaultMaxBackoff by default
	Rate       int               // requests per second, across all calls; unlimited by default
	Share      float64           // the Client waits for the next second when this share of a limit is used, no matter by whom; above 0 and at most 1; DefaultShare by default
	Transport  http.RoundTripper // by default, a copy of http.DefaultTransport that keeps more idle connections
	UserAgent  string            // "sluice-client" by default

	// FinishTry lets a change that is under way end, within TryTimeout, even if its context is done or
	// MaxElapsed is over. So the caller learns whether it was made.
	FinishTry bool

	// OnTry, if not nil, is called after every try. It must be safe for concurrent use.
	OnTry func(Try)
}

// Try describes one request of a call.
type Try struct {
	Route  string // such as create-event
	Number int    // within the call, from 1
	Status int    // 0 if there was no response
	Err    *Error // nil if the try succeeded
	Unsure bool   // whether a change that failed may have been made, or may still be

	// Wait is the time until the next try, or 0 after the last try. Pacing may extend it.
	Wait time.Duration
}

// Client calls one service. It is safe for concurrent use. A program should have only one
// Client, because two Clients do not know of each other's requests.
type Client struct {
	base *url.URL
	cfg  Config
	http *http.Client
	pace *pacer

	source atomic.Pointer[string]    // result of Source; nil until Source succeeds
	date   atomic.Pointer[time.Time] // result of Date
}

// New returns a Client for the service at baseURL, such as http://127.0.0.1:3000 or
// https://api.example.com/stage. It sends no request. It fails if the URL or a field of cfg is
// invalid.
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
		// The API never redirects, and no other host may get the API key.
		http: &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		pace: newPacer(cmp.Or(cfg.Share, DefaultShare), cfg.Rate),
	}, nil
}

type call struct {
	route   route
	path    string
	query   url.Values
	body    []byte // nil if there is none
	records int64  // maximum number of records in the response; 0 to let the pacer choose
	once    bool   // whether a repeat would do something again
	paced   bool   // whether the pacer sets "limit" in the query
}

// changes reports whether the call may change something.
func (k call) changes() bool { return k.route.method != http.MethodGet }

type route struct {
	name   string
	method string
	class  string // selects the rules that apply
}

// Classes of routes, as in the service.
const (
	classExport  = "export"
	classImport  = "import"
	classGeneral = "general"
)

// costs returns what the call costs under each rule that applies to it. The call waits in the queue
// (rule.line) of the last rule.
func (k call) costs() []cost {
	costs := []cost{{rule: "requests", key: "requests " + k.route.name, amount: 1}}
	switch k.route.class {
	case classImport:
		costs = append(costs, cost{rule: "imports", key: "imports", amount: 1})
	case classExport:
		costs = append(costs, cost{rule: "records", key: "records", amount: cmp.Or(k.records, maxPage), step: k.records == 0})
	}
	return costs
}

// admit waits until the limits have room for k, and returns the costs with which k was admitted. If
// k.paced is true, admit sets the query's limit to the cost in records.
func (c *Client) admit(ctx context.Context, k *call) (costs []cost, sent time.Duration, failure *Error) {
	if err := ctx.Err(); err != nil { // a request would not be sent, but its outcome would seem unknown
		return nil, 0, &Error{Route: k.route.name, Err: err}
	}
	costs = k.costs()
	if sent, failure = c.pace.enter(ctx, costs, c.cfg.MaxElapsed); failure != nil {
		failure.Route = k.route.name
		return nil, 0, failure
	}
	if k.paced {
		k.query.Set("limit", strconv.FormatInt(costs[len(costs)-1].amount, 10))
	}
	return costs, sent, nil
}

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

// decode returns a retryable error for an invalid body, as if the response had been lost.
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

// required decodes an object that must have a member, into out. Other JSON is from a proxy.
type required struct {
	member string
	out    any
}

func (r *required) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if value := string(members[r.member]); value == "" || value == "null" {
		return fmt.Errorf("the member %q is missing", r.member)
	}
	return json.Unmarshal(text, r.out)
}

// encode does not escape HTML characters in attributes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return b.Bytes(), nil
}
