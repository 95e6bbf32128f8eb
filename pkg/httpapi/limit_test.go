package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

type countingStore struct {
	entity.Store
	reads int
}

func (s *countingStore) List(ctx context.Context, workspace string, q entity.Query) (record.Page[entity.Entity], error) {
	s.reads++
	return s.Store.List(ctx, workspace, q)
}

func (s *countingStore) Get(ctx context.Context, workspace, id string) (entity.Entity, error) {
	s.reads++
	return s.Store.Get(ctx, workspace, id)
}

func TestExportsKnownNotToFitAreNotRead(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"a", "b", "c"} {
		ev := sample(t, "create-entity")
		ev.Body = `{"id":"` + id + `"}`
		a.invoke(t, "create-entity", ev)
	}
	store := &countingStore{Store: a.stores.Entities}
	a.stores.Entities = store
	var err error
	if a.limiter, err = ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Records: 5}}); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		path          string
		status, reads int
		records       string // records left, from the RateLimit header
	}{
		{"?limit=3", 200, 1, "2"},
		{"?limit=x", 400, 1, "2"}, // costs no records
		{"?limit=3", 429, 2, "2"}, // read, and then refused
		{"?limit=3", 429, 2, "2"},
		{"?limit=4", 429, 2, "2"},
		{"/a", 200, 3, "1"},
		{"?limit=1", 200, 4, "0"},
		{"?limit=1", 429, 4, "0"}, // nothing is left
		{"/a", 429, 4, "0"},
		{"?limit=x", 400, 4, "0"},
	} {
		route := "list-entity"
		if step.path[0] == '/' {
			route = "get-entity"
		}
		resp := a.get(t, route, "/entity"+step.path)
		if resp.StatusCode != step.status || store.reads != step.reads || !strings.HasPrefix(resp.Headers["RateLimit"], `"records";r=`+step.records+`;`) {
			t.Errorf("step %d, %s: status %d after %d reads, RateLimit %s; want %+v", i, step.path, resp.StatusCode, store.reads, resp.Headers["RateLimit"], step)
		}
		if refused := step.status == 429; (resp.Headers["Retry-After"] == "1") != refused || refused && resp.Headers["X-RateLimit-Remaining"] != "0" {
			t.Errorf("step %d: headers %v", i, resp.Headers)
		}
	}
}

type unreachable struct{}

func (unreachable) Charge(context.Context, ratelimit.Key, []ratelimit.Cost) (ratelimit.Result, error) {
	return ratelimit.Result{}, errors.New("unreachable")
}

type line struct {
	Level, Route, Error, FailureMode string
	WouldRefuse, LimitsError         string
	Status                           int
	Metrics                          map[string]float64
}

// invokeLogged invokes a route with metrics on, and also returns the only log line.
func invokeLogged(t *testing.T, a service, route string, ev events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, line) {
	t.Helper()
	var log bytes.Buffer
	opts := options
	opts.Rows = a.rows
	opts.Logger, opts.Service, opts.Metrics = slog.New(slog.NewJSONHandler(&log, nil)), "sluice-test", httpapi.MetricsAll
	resp := serve(t, newFunction(t, route, a, opts), ev)
	if n := bytes.Count(log.Bytes(), []byte("\n")); n != 1 {
		t.Fatalf("%d log lines: %s", n, &log)
	}
	var l line
	var members map[string]any
	var directive struct {
		Level, Error string
		Status       int
		Mode         string `json:"failure_mode"`
		WouldRefuse  string `json:"would_refuse"`
		LimitsError  string `json:"limits_error"`
		AWS          struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	if err := errors.Join(json.Unmarshal(log.Bytes(), &members), json.Unmarshal(log.Bytes(), &directive)); err != nil {
		t.Fatal(err)
	}
	l.Level, l.Error, l.Status, l.FailureMode = directive.Level, directive.Error, directive.Status, directive.Mode
	l.WouldRefuse, l.LimitsError = directive.WouldRefuse, directive.LimitsError
	if len(directive.AWS.CloudWatchMetrics) != 1 || directive.AWS.Timestamp != now().Unix()*1000 {
		t.Fatalf("no metric directive, or another time: %s", &log)
	}
	d := directive.AWS.CloudWatchMetrics[0]
	if want := [][]string{{"Service"}, {"Service", "Route"}}; !reflect.DeepEqual(d.Dimensions, want) || members["Service"] != "sluice-test" {
		t.Errorf("dimensions %v of the service %v, want %v of sluice-test", d.Dimensions, members["Service"], want)
	}
	l.Route, _ = members["Route"].(string)
	l.Metrics = make(map[string]float64)
	for _, m := range d.Metrics {
		value, ok := members[m.Name].(float64)
		if !ok || m.Unit == "" || d.Namespace != "Sluice" {
			t.Errorf("the metric %s is defined without a value, a unit or a namespace: %s", m.Name, &log)
		}
		l.Metrics[m.Name] = value
	}
	return resp, l
}

func TestMetricsOfTheService(t *testing.T) {
	for _, tt := range []struct {
		metrics, want string
		failures      bool
	}{
		{httpapi.MetricsAll, `"Dimensions":[["Service"],["Service","Route"]],"Metrics":[{"Name":"ChargeFailures","Unit":"Count"},{"Name":"ChargeLatency","Unit":"Milliseconds"}]`, true},
		{httpapi.MetricsService, `"Dimensions":[["Service"]],"Metrics":[{"Name":"ChargeFailures","Unit":"Count"},{"Name":"ChargeLatency","Unit":"Milliseconds"}]`, true},
		{httpapi.MetricsNone, `"Dimensions":[["Service"]],"Metrics":[{"Name":"ChargeFailures","Unit":"Count"}]`, true},
		{httpapi.MetricsNone, "", false},
	} {
		a := newAPI(t)
		if tt.failures {
			var err error
			if a.limiter, err = ratelimit.New(unreachable{}, ratelimit.Config{Now: now}); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		opts := options
		opts.Logger, opts.Service, opts.Metrics = slog.New(slog.NewJSONHandler(&log, nil)), "sluice-test", tt.metrics
		serve(t, newFunction(t, "list-event", a, opts), sample(t, "list-event"))
		if !strings.Contains(log.String(), tt.want) || strings.Contains(log.String(), "_aws") != (tt.want != "") {
			t.Errorf("metrics %s: %s, want %s", tt.metrics, &log, tt.want)
		}
	}
}

func TestTheLogLineHoldsTheMetrics(t *testing.T) {
	counted := func(t *testing.T, cfg ratelimit.Config, store ratelimit.Store) service {
		a := newAPI(t)
		cfg.Now = now
		var err error
		if a.limiter, err = ratelimit.New(store, cfg); err != nil {
			t.Fatal(err)
		}
		return a
	}
	full := &forgetful{charges: 1} // refuses every charge
	for _, tt := range []struct {
		name     string
		route    string
		cfg      ratelimit.Config
		store    ratelimit.Store
		requests int // how many requests precede the one whose log line is checked
		status   int
		level    string
		mode     string
		counts   []string // metrics whose value is 1
		latency  bool
	}{
		{"allowed", "create-event", ratelimit.Config{}, memory.NewCounters(), 0, 201, "INFO", "", []string{"Allowed"}, true},
		{"refused by a call", "create-event", ratelimit.Config{}, &forgetful{}, 1, 429, "WARN", "", []string{"Refused", "RefusedByImports", "RefusedByRequests"}, true},
		{"refused by known exhaustion", "create-event", ratelimit.Config{Limits: ratelimit.Limits{Imports: 1, Requests: 1}}, memory.NewCounters(), 1, 429, "WARN", "", []string{"Refused", "RefusedByImports", "RefusedByRequests", "LocalRefusals"}, false},
		{"failed closed", "create-event", ratelimit.Config{}, unreachable{}, 0, 503, "ERROR", "", []string{"ChargeFailures"}, true},
		{"failed open", "create-event", ratelimit.Config{Fallback: memory.NewCounters()}, unreachable{}, 0, 201, "WARN", "open", []string{"Allowed", "ChargeFailures", "FailedOpen"}, true},
		{"failed open, refused", "create-event", ratelimit.Config{Fallback: memory.NewCounters(), Limits: ratelimit.Limits{Imports: 2}}, unreachable{}, 2, 429, "WARN", "open", []string{"Refused", "RefusedByImports", "ChargeFailures", "FailedOpen"}, true},
		{"an export", "list-entity", ratelimit.Config{}, memory.NewCounters(), 0, 200, "INFO", "", []string{"Allowed"}, true},
		{"an export whose action fails", "get-entity", ratelimit.Config{}, memory.NewCounters(), 0, 404, "INFO", "", []string{"Allowed"}, true},
		{"an export refused by a call", "list-entity", ratelimit.Config{}, full, 0, 429, "WARN", "", []string{"Refused", "RefusedByRequests"}, true},
		{"an export refused unread", "list-entity", ratelimit.Config{Limits: ratelimit.Limits{Requests: 1}}, memory.NewCounters(), 1, 429, "WARN", "", []string{"Refused", "RefusedByRequests", "LocalRefusals"}, false},
		{"an export, failed closed", "list-entity", ratelimit.Config{}, unreachable{}, 0, 503, "ERROR", "", []string{"ChargeFailures"}, true},
		{"an export, failed open", "list-entity", ratelimit.Config{Fallback: memory.NewCounters()}, unreachable{}, 0, 200, "WARN", "open", []string{"Allowed", "ChargeFailures", "FailedOpen"}, true},
		{"an export, failed open, refused", "list-entity", ratelimit.Config{Fallback: full}, unreachable{}, 0, 429, "WARN", "open", []string{"Refused", "RefusedByRequests", "ChargeFailures", "FailedOpen"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := counted(t, tt.cfg, tt.store)
			ev := sample(t, tt.route)
			if tt.route == "create-event" {
				ev.Body = `{"name":"n"}`
			}
			for range tt.requests {
				a.invoke(t, tt.route, ev)
			}
			resp, l := invokeLogged(t, a, tt.route, ev)
			if resp.StatusCode != tt.status || l.Status != tt.status || l.Level != tt.level || l.FailureMode != tt.mode || l.Route != tt.route {
				t.Errorf("status %d, line %+v; want %+v", resp.StatusCode, l, tt)
			}
			if (l.Error != "") != (tt.status >= 500) {
				t.Errorf("error %q", l.Error)
			}
			for _, name := range tt.counts {
				if l.Metrics[name] != 1 {
					t.Errorf("%s is %v", name, l.Metrics[name])
				}
			}
			_, latency := l.Metrics["ChargeLatency"]
			if want := len(tt.counts); latency != tt.latency || len(l.Metrics) != want+btoi(tt.latency) {
				t.Errorf("metrics %v, want %v and latency %v", l.Metrics, tt.counts, tt.latency)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// forgetful admits only the first charge, but reports its counters as 0. The limiter therefore
// does not know that they are exhausted, and calls forgetful for the next charge.
type forgetful struct{ charges int }

func (s *forgetful) Charge(_ context.Context, _ ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	s.charges++
	used := make([]int64, len(costs))
	if s.charges == 1 {
		return ratelimit.Result{Admitted: true, Used: used}, nil
	}
	for i, c := range costs {
		used[i] = c.Rule.Limit
	}
	return ratelimit.Result{Used: used}, nil
}
