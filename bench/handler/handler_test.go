// Package handler measures the processor time that a function spends on a request, not counting
// the calls to its stores.
package handler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

const pageLength = 50

const body = `{"id":"order-2026-000017-signed","name":"order_signed","entity_id":"customer-000017","occurred_at":"2026-01-02T15:04:05.250Z",` +
	`"attributes":{"plan":"team","seats":12,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},` +
	`"tags":["renewal","annual"],"note":"Signed by Zoë, \"as agreed\""}}`

// BenchmarkHandler passes API Gateway events through the adapter and the handler of a route.
// Stores return immediately, API keys are off, and the log line has metrics. For comparison,
// the adapter also runs a handler that writes 20 bytes (bare) and a handler that writes the
// same bytes as Sluice (bare-same-bytes).
func BenchmarkHandler(b *testing.B) {
	for _, r := range []struct {
		route string
		event events.APIGatewayV2HTTPRequest
	}{
		{"create-event", gatewayEvent(http.MethodPost, "/create_event", body)},
		{"list-event", gatewayEvent(http.MethodGet, "/event?limit="+strconv.Itoa(pageLength), "")},
	} {
		api := newAPI(b, r.route)
		sluice := httpadapter.NewV2(api)
		resp, err := sluice.ProxyWithContext(b.Context(), r.event)
		if err != nil || resp.StatusCode >= http.StatusBadRequest {
			b.Fatalf("%s: %d %s, %v", r.route, resp.StatusCode, resp.Body, err)
		}
		for _, impl := range []struct {
			name    string
			adapter *httpadapter.HandlerAdapterV2
		}{
			{"bare", bare(`{"message":"hello"}` + "\n")},
			{"bare-same-bytes", bare(resp.Body)},
			{"sluice", sluice},
		} {
			b.Run("route="+r.route+"/impl="+impl.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := impl.adapter.ProxyWithContext(b.Context(), r.event); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func bare(text string) *httpadapter.HandlerAdapterV2 {
	return httpadapter.NewV2(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(text)) //nolint:errcheck // the adapter's writer is a buffer
	}))
}

func newAPI(b *testing.B, function string) *httpapi.API {
	b.Helper()
	limiter, err := ratelimit.New(counters{}, ratelimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	api, err := httpapi.NewFunction(function, limiter, httpapi.Stores{Events: newStore()}, httpapi.Options{
		Config: httpapi.Config{AccessOff: true, AdminRoutes: true, Service: "sluice"}, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		RequestID: func(*http.Request) string { return "JKJaXmPLvHcESHA=" },
	})
	if err != nil {
		b.Fatal(err)
	}
	return api
}

// counters admits everything.
type counters struct{}

func (counters) Charge(_ context.Context, _ ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	result := ratelimit.Result{Admitted: true, Used: make([]int64, len(costs))}
	for i, c := range costs {
		result.Used[i] = c.Amount
	}
	return result, nil
}

// store stores nothing and always lists the same page.
type store struct {
	event.Store // nil; the benchmark calls only Create and List
	page        record.Page[event.Event]
}

func newStore() store {
	var s store
	at := time.Date(2026, 1, 2, 15, 4, 5, 250_000_000, time.UTC)
	for i := range pageLength {
		s.page.Records = append(s.page.Records, event.Event{
			ID:         fmt.Sprintf("01964c2e-7a1b-7c3d-8e4f-%012d", i),
			Name:       "order_signed",
			EntityID:   fmt.Sprintf("customer-%06d", i),
			OccurredAt: record.TimeOf(at.Add(time.Duration(i) * time.Second)),
			Attributes: record.Attributes(fmt.Sprintf(`{"plan":"team","seats":%d,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},"tags":["renewal","annual"]}`, i)),
			CreatedAt:  record.TimeOf(at.Add(time.Duration(i) * time.Second)),
		})
	}
	return s
}

func (s store) Create(_ context.Context, _ string, d event.Draft) (event.Event, bool, error) {
	return d.At(time.Now()), true, nil
}

func (s store) List(context.Context, string, event.Query) (record.Page[event.Event], error) {
	return s.page, nil
}

// gatewayEvent is what API Gateway makes of a browser's request.
func gatewayEvent(method, target, body string) events.APIGatewayV2HTTPRequest {
	ev := lambdatest.Event(method, target, "203.0.113.7", body)
	maps.Copy(ev.Headers, map[string]string{
		"accept":            "application/json",
		"accept-encoding":   "gzip, deflate, br",
		"content-length":    strconv.Itoa(len(body)),
		"content-type":      "application/json",
		"user-agent":        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"x-amzn-trace-id":   "Root=1-6957dbb5-0a1b2c3d4e5f60718293a4b5",
		"x-forwarded-for":   "203.0.113.7",
		"x-forwarded-port":  "443",
		"x-forwarded-proto": "https",
	})
	return ev
}
