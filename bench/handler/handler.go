// Package handler measures what a function does with a request beyond the calls
// to its stores, beside an HTTP adapter that answers hello.
package handler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"sluice/bench/report"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// rounds is how often each is measured, one after the other; odd, for a median.
const rounds = 5

// pageLength is of the list that is asked for.
const pageLength = 50

const body = `{"id":"order-2026-000017-signed","name":"order_signed","entity_id":"customer-000017","occurred_at":"2026-01-02T15:04:05.250Z",` +
	`"attributes":{"plan":"team","seats":12,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},` +
	`"tags":["renewal","annual"],"note":"Signed by Zoë, \"as agreed\""}}`

// subject is something that answers events.
type subject struct {
	name   string
	invoke func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)
	event  events.APIGatewayV2HTTPRequest
	ns     []float64 // an op, by round
	result testing.BenchmarkResult
}

// Measure compares handlers with the bare adapter.
func Measure(t *testing.T) []report.Section {
	t.Helper()
	var rows [][]string
	var claims []report.Claim
	for _, r := range []struct {
		route string
		line  string
		most  float64
		event events.APIGatewayV2HTTPRequest
	}{
		{"create-event", "`POST /create_event`", 2, newEvent(http.MethodPost, "/create_event", "", body)},
		{"list-event", fmt.Sprintf("`GET /event?limit=%d`", pageLength), 3, newEvent(http.MethodGet, "/event", "limit="+strconv.Itoa(pageLength), "")},
	} {
		real := subject{name: r.line, invoke: newHandler(t, r.route, slog.LevelInfo).Invoke, event: r.event}
		silent := subject{name: "Sluice, without its log line", invoke: newHandler(t, r.route, slog.LevelError).Invoke, event: r.event}
		answer := real.answer(t)
		hello := subject{name: "bare adapter, hello", invoke: bare(`{"message":"hello"}` + "\n"), event: r.event}
		same := subject{name: "bare adapter, the same bytes", invoke: bare(answer), event: r.event}
		all := []*subject{&real, &silent, &hello, &same}
		for range rounds {
			for _, s := range all {
				s.measure(t)
			}
		}
		for _, s := range all {
			rows = append(rows, []string{
				r.line, s.name, strconv.Itoa(len(s.answer(t))), report.Number(median(s.ns) / 1000),
				strconv.FormatInt(s.result.AllocedBytesPerOp(), 10), strconv.FormatInt(s.result.AllocsPerOp(), 10), report.Number(times(s, &hello)),
			})
		}
		rows[len(rows)-len(all)][1] = "Sluice"
		claim := report.AtMost(r.line+": time of the bare adapter's hello", times(&real, &hello), r.most)
		claim.Why = fmt.Sprintf("without the log line and its metrics it is %s, and an adapter alone that answers as many bytes takes %s; "+
			"the rest is reading and checking the request, the charge, the deadlines of both, and writing the answer",
			report.Number(times(&silent, &hello)), report.Number(times(&same, &hello)))
		claims = append(claims, claim)
	}
	return []report.Section{{
		Title: "A request through the handler",
		About: fmt.Sprintf("One event through `Handler.Invoke`, with stores that answer at once and admit everything, access keys off, and the log line with its metrics, "+
			"as a function writes it, into nothing. Beside it the same event through aws-lambda-go-api-proxy's `httpadapter.NewV2` alone, with a handler that writes a hello of 20 bytes, "+
			"the base of the last column and of the lines below, and one that writes the bytes of Sluice's answer. The body of `create_event` has %d bytes; the list shows %d records. "+
			"Medians of %d rounds, of the ratios of each round too.", len(body), pageLength, rounds),
		Header: []string{"Event", "Handler", "Bytes of the answer", "µs", "Bytes allocated", "Allocations", "Times hello"},
		Rows:   rows,
		Claims: claims,
	}}
}

// answer is the body of the response to the event, which must be a success.
func (s *subject) answer(t *testing.T) string {
	t.Helper()
	resp, err := s.invoke(t.Context(), s.event)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s: %d %s, %v", s.name, resp.StatusCode, resp.Body, err)
	}
	return resp.Body
}

// measure adds a round.
func (s *subject) measure(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var failed error
	s.result = testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.invoke(ctx, s.event); err != nil {
				failed = err
			}
		}
	})
	if failed != nil {
		t.Fatalf("%s: %v", s.name, failed)
	}
	s.ns = append(s.ns, float64(s.result.T.Nanoseconds())/float64(s.result.N))
}

// times is the median, over the rounds, of how many times as long as base s took.
func times(s, base *subject) float64 {
	ratios := make([]float64, len(s.ns))
	for i := range ratios {
		ratios[i] = s.ns[i] / base.ns[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// bare is the adapter with a handler that writes text.
func bare(text string) func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	return httpadapter.NewV2(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(text)) //nolint:errcheck // the adapter's writer is a buffer
	})).ProxyWithContext
}

// newHandler makes a handler as a function does, but for its stores.
func newHandler(t testing.TB, route string, level slog.Level) *httpapi.Handler {
	t.Helper()
	limiter, err := ratelimit.New(freeCounters{}, ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := httpapi.NewHandler(route, limiter, httpapi.Stores{Events: newFreeEvents()}, httpapi.Options{
		AccessOff: true, Logger: slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level})), Service: "sluice",
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// freeCounters admits everything.
type freeCounters struct{}

func (freeCounters) Charge(_ context.Context, _ ratelimit.Key, _ []ratelimit.Rule, cost ratelimit.Amounts) (ratelimit.Amounts, bool, error) {
	return cost, true, nil
}

// freeEvents stores nothing and lists the same page to everybody.
type freeEvents struct {
	event.Store // of methods that no request here needs
	page        event.Page
}

func newFreeEvents() freeEvents {
	var f freeEvents
	at := time.Date(2026, 1, 2, 15, 4, 5, 250_000_000, time.UTC)
	for i := range pageLength {
		f.page.Events = append(f.page.Events, event.Event{
			ID:         fmt.Sprintf("01964c2e-7a1b-7c3d-8e4f-%012d", i),
			Name:       "order_signed",
			EntityID:   event.OptionalID(fmt.Sprintf("customer-%06d", i)),
			OccurredAt: record.TimeOf(at.Add(time.Duration(i) * time.Second)),
			Attributes: record.Attributes(fmt.Sprintf(`{"plan":"team","seats":%d,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},"tags":["renewal","annual"]}`, i)),
			CreatedAt:  record.TimeOf(at.Add(time.Duration(i) * time.Second)),
		})
	}
	return f
}

func (f freeEvents) Create(_ context.Context, _ string, e event.Event) (event.Event, bool, error) {
	return e, true, nil
}

func (f freeEvents) List(context.Context, string, event.Query) (event.Page, error) {
	return f.page, nil
}

// newEvent is an event as API Gateway makes it of a browser's request.
func newEvent(method, path, query, body string) events.APIGatewayV2HTTPRequest {
	ev := events.APIGatewayV2HTTPRequest{
		Version:        "2.0",
		RouteKey:       method + " " + path,
		RawPath:        path,
		RawQueryString: query,
		Headers: map[string]string{
			"accept":            "application/json",
			"accept-encoding":   "gzip, deflate, br",
			"content-length":    strconv.Itoa(len(body)),
			"host":              "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
			"user-agent":        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
			"x-amzn-trace-id":   "Root=1-6957dbb5-0a1b2c3d4e5f60718293a4b5",
			"x-forwarded-for":   "203.0.113.7",
			"x-forwarded-port":  "443",
			"x-forwarded-proto": "https",
		},
		Body: body,
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: method + " " + path, AccountID: "123456789012", Stage: "$default", RequestID: "JKJaXmPLvHcESHA=", APIID: "a1b2c3d4e5",
			DomainName: "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com", DomainPrefix: "a1b2c3d4e5",
			Time: "02/Jan/2026:15:04:05 +0000", TimeEpoch: 1767366245000,
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: method, Path: path, Protocol: "HTTP/1.1", SourceIP: "203.0.113.7"},
		},
	}
	if query != "" {
		ev.QueryStringParameters = map[string]string{"limit": strconv.Itoa(pageLength)}
	}
	if body != "" {
		ev.Headers["content-type"] = "application/json"
	}
	return ev
}
