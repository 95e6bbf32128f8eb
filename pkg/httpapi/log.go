package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"sluice/pkg/ratelimit"
)

// logEntry holds the data of a request's log line. It is in the context of the request, so
// all handlers of the request can access it.
type logEntry struct {
	requestID string
	route     string // name of the route
	address   string // address of the client, from the connection or the trusted header
	counted   string // address to which the request is charged; "" if it is invalid
	limitsErr error  // why the limit overrides were not current; nil if they were current
	workspace string // workspace of the caller; "" on public routes
	keyID     string // id of the caller's API key, even if the key is not valid; not a secret
	refused   string // why the caller was rejected; "" otherwise
	limit     ratelimit.Observation
	status    int   // status of the response
	records   int   // number of records in the response
	err       error // cause of an error response
}

type logEntryKey struct{}

// logEntryOf returns the log entry of a request. The request must have passed through the
// handler that API.logged returns.
func logEntryOf(r *http.Request) *logEntry {
	return r.Context().Value(logEntryKey{}).(*logEntry)
}

// logged returns a handler that calls the given handler and writes a log line. The
// returned handler is the outermost one. It therefore responds with 500 if the given
// handler panics.
func (a *API) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		l := &logEntry{requestID: a.service.RequestID(r)}
		defer func() {
			if v := recover(); v != nil {
				a.service.recovered(w, l, v)
			}
			a.service.log(r.Context(), l, time.Since(start))
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), logEntryKey{}, l)))
	})
}

// recovered responds with 500 to a request whose handler panicked outside of
// endpoint.respond. A panic inside endpoint.respond is recovered there.
func (s *service) recovered(w http.ResponseWriter, l *logEntry, v any) {
	l.limit.Decision = s.limiter.Uncharged(ratelimit.Request{Route: ratelimit.Route{Name: l.route, Class: ratelimit.General}})
	l.limit.Decision.SetHeaders(w.Header())
	l.write(w, l.problem(fmt.Errorf("panic: %v\n%s", v, debug.Stack())))
}

// metricsNamespace is the CloudWatch namespace of the metrics of the service.
const metricsNamespace = "Sluice"

// log writes the log line of a request. If Options.Service is set, the line is also a
// record in the CloudWatch embedded metric format. CloudWatch Logs extracts the metrics
// without an API call. Each metric is published twice: with the dimension Service, which
// alarms use, and with the dimensions Service and Route.
//
//	Allowed, Refused, Blocked         requests, by the decision
//	Observed                          requests that exceed a limit and pass only because of ActionObserve
//	RefusedByRecords, …Imports, …Requests
//	                                  refusals by rule; one refusal may count for several rules
//	LocalRefusals                     refusals without a call to the counters
//	ChargeLatency                     milliseconds that the call to the counters took; absent if there was no call
//	ChargeFailures                    charges that failed
//	FailedOpen                        requests that the fallback or the action decided because
//	                                  the charge failed
//	LimitsUnread                      requests decided before the rows of limits were read
//	LimitsStale                       requests decided by rows that are too old
//	AccessRefusals                    requests rejected because of their API key, origin or host name,
//	                                  or because they bypassed the trusted proxy
//
// The cause of a 5xx is only in the log. CloudWatch Logs charges by the byte, so the line
// omits zero values and all data that the response headers contain.
//
// Source: CloudWatch User Guide, "Specification: Embedded metric format".
func (s *service) log(ctx context.Context, l *logEntry, duration time.Duration) {
	d := l.limit.Decision
	failed := l.status >= http.StatusInternalServerError
	level := slog.LevelInfo
	switch {
	case failed:
		level = slog.LevelError
	case l.refused != "" || d.Degraded != nil || l.limitsErr != nil:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", l.requestID),
		slog.String("Route", l.route),
		slog.String("address", l.address),
		slog.Int("status", l.status),
		slog.Float64("duration_ms", milliseconds(duration)),
	}
	if l.records > 0 {
		attrs = append(attrs, slog.Int("records", l.records))
	}
	optional := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	optional("key_id", l.keyID)
	optional("workspace", l.workspace)
	optional("access_refused", l.refused)
	if failed && l.err != nil {
		optional("error", l.err.Error())
	}
	if d.Degraded != nil {
		optional("failure_mode", "open")
		optional("charge_error", d.Degraded.Error())
	}
	if d.Observed {
		optional("would_refuse", strings.Join(d.Violated(), ","))
	}
	if l.limitsErr != nil {
		optional("limits_error", l.limitsErr.Error())
	}
	if s.Service != "" {
		attrs = append(attrs, metrics(s.Service, l)...)
	}
	// Write the line even if the client has disconnected.
	s.Logger.LogAttrs(context.WithoutCancel(ctx), level, "request", attrs...)
}

// milliseconds returns d in milliseconds, rounded to a tenth.
func milliseconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 10 }

// metric defines a metric of a log line. The log line has a member with the name of the
// metric, and the value of this member is the value of the metric.
type metric struct {
	Name string
	Unit string
}

// metricDirective is a metadata object of the embedded metric format.
type metricDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []metric
}

// metrics returns the members of a log line for CloudWatch: the metrics that the request
// changes, and their definition.
func metrics(service string, l *logEntry) []slog.Attr {
	attrs := []slog.Attr{slog.String("Service", service)}
	var defined []metric
	add := func(name, unit string, value float64) {
		attrs = append(attrs, slog.Float64(name, value))
		defined = append(defined, metric{name, unit})
	}
	count := func(name string) { add(name, "Count", 1) }
	d := l.limit.Decision
	failed := l.limit.Charged && l.limit.Err != nil
	switch {
	case d.Allowed:
		count("Allowed")
	case d.Blocked:
		count("Blocked")
	case !failed:
		count("Refused")
		for _, policy := range d.Violated() {
			count(refusedBy[policy])
		}
	}
	if d.Observed {
		count("Observed")
	}
	if d.Local && !d.Allowed && !d.Blocked {
		count("LocalRefusals")
	}
	if l.limit.Charged {
		add("ChargeLatency", "Milliseconds", milliseconds(l.limit.Latency))
	}
	if failed || d.Degraded != nil {
		count("ChargeFailures")
	}
	if d.Degraded != nil {
		count("FailedOpen")
	}
	if l.refused != "" {
		count("AccessRefusals")
	}
	switch {
	case errors.Is(l.limitsErr, ratelimit.ErrRowsUnread):
		count("LimitsUnread")
	case l.limitsErr != nil:
		count("LimitsStale")
	}
	return append(attrs, slog.Attr{Key: "_aws", Value: slog.GroupValue(
		slog.Int64("Timestamp", int64(d.Window)*1000),
		slog.Any("CloudWatchMetrics", []metricDirective{{
			Namespace: metricsNamespace, Dimensions: [][]string{{"Service"}, {"Service", "Route"}}, Metrics: defined,
		}}),
	)})
}

// refusedBy maps each rule to the metric of its refusals.
var refusedBy = map[string]string{
	ratelimit.PolicyRecords:  "RefusedByRecords",
	ratelimit.PolicyImports:  "RefusedByImports",
	ratelimit.PolicyRequests: "RefusedByRequests",
}
