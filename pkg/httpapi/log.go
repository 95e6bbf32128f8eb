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
	attrs := []slog.Attr{
		slog.String("request_id", r.requestID),
		slog.String("Route", h.route.Name),
		slog.String("address", r.address),
		slog.Int("status", out.status),
		slog.Int("records", out.records),
		slog.Int64("remaining", d.Remaining()),
		slog.Float64("duration_ms", milliseconds(duration)),
	}
	if r.keyID != "" {
		attrs = append(attrs, slog.String("key_id", r.keyID))
	}
	if r.workspace != "" {
		attrs = append(attrs, slog.String("workspace", r.workspace))
	}
	if r.refused != "" {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("access_refused", r.refused))
	}
	if out.status >= http.StatusInternalServerError {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	if d.Degraded != nil {
		level = max(level, slog.LevelWarn)
		attrs = append(attrs, slog.String("failure_mode", "open"), slog.String("charge_error", d.Degraded.Error()))
	}
	if h.opts.Service != "" {
		attrs = append(attrs, metrics(h.opts.Service, r, c)...)
	}
	// A client that has gone must not take the line with it.
	h.opts.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

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

// metrics are the members of a log line that CloudWatch reads, those alone that
// the request has something to say to.
func metrics(service string, r *request, c charge) []slog.Attr {
	attrs := []slog.Attr{slog.String("Service", service)}
	var defined []metric
	add := func(name, unit string, value float64) {
		defined = append(defined, metric{Name: name, Unit: unit})
		attrs = append(attrs, slog.Float64(name, value))
	}
	d := c.decision
	switch {
	case d.Allowed:
		add("Allowed", "Count", 1)
	case c.err == nil:
		add("Refused", "Count", 1)
		for _, policy := range d.Violated() {
			add(refusedBy[policy], "Count", 1)
		}
	}
	if d.Local {
		add("LocalRefusals", "Count", 1)
	}
	if c.made {
		add("ChargeLatency", "Milliseconds", milliseconds(c.latency))
	}
	if c.err != nil || d.Degraded != nil {
		add("ChargeFailures", "Count", 1)
	}
	if d.Degraded != nil {
		add("FailedOpen", "Count", 1)
	}
	if r.refused != "" {
		add("AccessRefusals", "Count", 1)
	}
	return append(attrs, slog.Group("_aws",
		slog.Int64("Timestamp", int64(d.Window)*1000),
		slog.Any("CloudWatchMetrics", []metricDirective{{Namespace: metricsNamespace, Dimensions: dimensions, Metrics: defined}}),
	))
}

// refusedBy names the metric of a rule's refusals.
var refusedBy = map[string]string{
	ratelimit.PolicyRecords:  "RefusedByRecords",
	ratelimit.PolicyImports:  "RefusedByImports",
	ratelimit.PolicyRequests: "RefusedByRequests",
}
