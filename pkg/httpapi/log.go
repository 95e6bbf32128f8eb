package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"sluice/pkg/ratelimit"
)

// metricsNamespace holds the service's metrics in CloudWatch.
const metricsNamespace = "Sluice"

// log writes the one line of a request. With Options.Service the line is also a
// record in the CloudWatch embedded metric format: CloudWatch Logs takes the
// metrics out of it, and writing them costs no call. They have the dimension
// Service, which alarms watch, and once more Service and Route.
//
//	Allowed, Refused                  requests, by the decision
//	RefusedByRecords, …Imports, …Requests
//	                                  refusals by the rule that had no room; one may have several
//	LocalRefusals                     refusals without a call to the counters
//	ChargeLatency                     milliseconds that the counters took, if they were asked
//	ChargeFailures                    charges that the counters did not answer
//	FailedOpen                        requests that the instance's own count decided in their place
//	AccessRefusals                    requests without a key that the route lets in
//
// Source: CloudWatch User Guide, "Specification: Embedded metric format".
//
// err is why the reply is an error; the log alone has the cause of a 5xx.
func (h *Handler) log(r *request, c charge, out reply, err error, duration time.Duration) {
	d := c.decision
	level := slog.LevelInfo
	switch {
	case out.status >= http.StatusInternalServerError:
		level = slog.LevelError
	case r.refused != "" || d.Degraded != nil:
		level = slog.LevelWarn
	}
	handler := h.opts.Logger.Handler()
	if !handler.Enabled(r.Context(), level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, maxAttrs),
		slog.String("request_id", r.requestID),
		slog.String("Route", h.route.Name),
		slog.String("address", r.address),
		slog.Int("status", out.status),
		slog.Int("records", out.records),
		slog.Int64("remaining", d.Remaining()),
		slog.Float64("duration_ms", milliseconds(duration)),
	)
	if r.keyID != "" {
		attrs = append(attrs, slog.String("key_id", r.keyID))
	}
	if r.workspace != "" {
		attrs = append(attrs, slog.String("workspace", r.workspace))
	}
	if r.refused != "" {
		attrs = append(attrs, slog.String("access_refused", r.refused))
	}
	if out.status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	if d.Degraded != nil {
		attrs = append(attrs, slog.String("failure_mode", "open"), slog.String("charge_error", d.Degraded.Error()))
	}
	if h.opts.Service != "" {
		attrs = appendMetrics(attrs, h.opts.Service, r, c)
	}
	line := slog.NewRecord(time.Now(), level, "request", 0) // the place in this source would always be the same
	line.AddAttrs(attrs...)
	// A client that has gone must not take the line with it.
	handler.Handle(context.WithoutCancel(r.Context()), line) //nolint:errcheck // there is nowhere else to say it
}

// maxAttrs is the most attributes of a line.
const maxAttrs = 24

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// metric defines a metric of a log line; its value is the member of its name.
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

// dimensions are the sets of members, Service and Route, by which CloudWatch
// counts each metric.
var dimensions = [][]string{{"Service"}, {"Service", "Route"}}

// appendMetrics appends the members of a log line that CloudWatch reads, those
// alone that the request has something to say to.
func appendMetrics(attrs []slog.Attr, service string, r *request, c charge) []slog.Attr {
	attrs = append(attrs, slog.String("Service", service))
	first := len(attrs)
	count := func(name string) { attrs = append(attrs, slog.Float64(name, 1)) }
	d := c.decision
	switch {
	case d.Allowed:
		count("Allowed")
	case c.err == nil:
		count("Refused")
		for _, policy := range d.Violated() {
			count(refusedBy[policy])
		}
	}
	if d.Local {
		count("LocalRefusals")
	}
	if c.made {
		attrs = append(attrs, slog.Float64(chargeLatency, milliseconds(c.latency)))
	}
	if c.err != nil || d.Degraded != nil {
		count("ChargeFailures")
	}
	if d.Degraded != nil {
		count("FailedOpen")
	}
	if r.refused != "" {
		count("AccessRefusals")
	}
	return append(attrs, slog.Attr{Key: "_aws", Value: slog.GroupValue(
		slog.Int64("Timestamp", int64(d.Window)*1000),
		slog.Any("CloudWatchMetrics", directives(attrs[first:])),
	)})
}

// chargeLatency is the one metric that is no count.
const chargeLatency = "ChargeLatency"

// answered are the directives of a request that was let through, as most are.
var answered any = []metricDirective{{Namespace: metricsNamespace, Dimensions: dimensions, Metrics: []metric{{"Allowed", "Count"}, {chargeLatency, "Milliseconds"}}}}

// directives define metrics, the members of a line.
func directives(metrics []slog.Attr) any {
	if len(metrics) == 2 && metrics[0].Key == "Allowed" && metrics[1].Key == chargeLatency {
		return answered
	}
	defined := make([]metric, len(metrics))
	for i, m := range metrics {
		defined[i] = metric{Name: m.Key, Unit: "Count"}
		if m.Key == chargeLatency {
			defined[i].Unit = "Milliseconds"
		}
	}
	return []metricDirective{{Namespace: metricsNamespace, Dimensions: dimensions, Metrics: defined}}
}

// refusedBy names the metric of a rule's refusals.
var refusedBy = map[string]string{
	ratelimit.PolicyRecords:  "RefusedByRecords",
	ratelimit.PolicyImports:  "RefusedByImports",
	ratelimit.PolicyRequests: "RefusedByRequests",
}
