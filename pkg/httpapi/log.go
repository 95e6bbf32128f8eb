package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"sluice/pkg/metric"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// logEntry holds data for the log line that the other fields of request do not contain.
type logEntry struct {
	begun     time.Time
	limitsErr error         // why the rows of limits were out of date, or why some of them were invalid
	sourceErr error         // why the service's id could not be read
	charged   bool          // whether the counter store was called
	latency   time.Duration // how long the call to the counter store took
	chargeErr error
	keyID     string // id of the caller's key, even if the key is invalid; not a secret
	refused   string // why the caller was rejected
	status    int    // HTTP status of the response
	records   int    // number of records in the response
	err       error  // cause of an error response
}

// logRequest writes the log line of a request. If Options.Service is set, the line also publishes
// metrics: with the dimension Service, and with MetricsAll once more with Service and Route. With
// MetricsNone, it publishes only ChargeFailures, MissingPlans and those of limits.
//
//	Allowed, Refused, Blocked         requests, by decision
//	Observed                          requests that exceed a limit and pass only because of ActionObserve
//	RefusedByRecords, …Imports, …Requests, …Quota
//	                                  refusals by rule, or by a quota; one refusal may count for several
//	LocalRefusals                     refusals without a call to the counter store
//	ChargeLatency                     milliseconds spent in the counter store; absent without a call
//	ChargeFailures                    charges that failed
//	FailedOpen                        requests decided by the fallback or by a row's action because
//	                                  the charge failed
//	LimitsUnread                      requests decided before the rows of limits were read
//	LimitsStale                       requests decided by rows that were too old
//	LimitsInvalid                     requests decided while some rows were invalid
//	MissingPlans                      requests counted by a key whose plan has no row, so the defaults apply
//	AccessRefusals                    requests rejected because of their API key, origin or host name,
//	                                  or because they bypassed the trusted proxy
//
// Only the log has the cause of a 5xx. CloudWatch Logs charges by the byte, so the line omits
// zero values and whatever the response headers contain.
func (s *service) logRequest(ctx context.Context, r *request) {
	l, d := r.log, r.decision
	failed := l.status >= http.StatusInternalServerError
	level := slog.LevelInfo
	switch {
	case failed:
		level = slog.LevelError
	case l.status == http.StatusTooManyRequests || l.refused != "" || d.Degraded != nil || l.limitsErr != nil || l.sourceErr != nil || r.subject.MissingPlan != "":
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", r.id),
		slog.String("Route", r.route.Name),
		slog.String("address", record.Shorten(r.address)),
		slog.Int("status", l.status),
		slog.Float64("duration_ms", milliseconds(time.Since(l.begun))),
	}
	if l.records > 0 {
		attrs = append(attrs, slog.Int("records", l.records))
	}
	optional := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if r.subject.ByKey() { // otherwise the address is counted
		optional("counted", r.subject.Identity)
	}
	optional("missing_plan", r.subject.MissingPlan)
	optional("key_id", l.keyID)
	if l.keyID != "" {
		optional("workspace", r.workspace)
	}
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
	if (s.Service == "" || s.Metrics == MetricsNone) && l.status == http.StatusTooManyRequests { // otherwise metrics say it
		optional("refused_by", strings.Join(d.Violated(), ","))
	}
	if q, ok := d.Quota(); ok {
		optional("quota", q.Rule.Name)
	}
	if l.limitsErr != nil {
		optional("limits_error", l.limitsErr.Error())
	}
	if l.sourceErr != nil {
		optional("source_error", l.sourceErr.Error())
	}
	s.Logger.LogAttrs(ctx, level, "request", append(attrs, s.metrics(r)...)...)
}

// milliseconds returns d in milliseconds, rounded to a tenth.
func milliseconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 10 }

// metrics returns the members of a log line that CloudWatch reads: the metrics that the request
// changes.
func (s *service) metrics(r *request) []slog.Attr {
	all := failures(r)
	if s.Metrics != MetricsNone {
		all = append(all, decisions(r)...)
	}
	var by []string
	if s.Metrics == MetricsAll {
		by = []string{"Route"}
	}
	return metric.Attrs(s.Service, time.Unix(int64(r.decision.Window), 0), all, by...)
}

func decisions(r *request) (all []metric.Metric) {
	count := func(name string) { all = append(all, metric.Count(name)) }
	l, d := r.log, r.decision
	switch {
	case d.Allowed:
		count("Allowed")
	case d.Blocked:
		count("Blocked")
	case l.chargeErr == nil:
		count("Refused")
		for _, rule := range d.Violated() {
			if name, ok := refusedBy[rule]; ok {
				count(name)
			}
		}
		if _, ok := d.Quota(); ok {
			count("RefusedByQuota")
		}
	}
	if d.Observed {
		count("Observed")
	}
	if d.Local && !d.Allowed && !d.Blocked {
		count("LocalRefusals")
	}
	if l.charged {
		all = append(all, metric.Milliseconds("ChargeLatency", milliseconds(l.latency)))
	}
	if d.Degraded != nil {
		count("FailedOpen")
	}
	if l.refused != "" {
		count("AccessRefusals")
	}
	return all
}

func failures(r *request) (all []metric.Metric) {
	count := func(name string) { all = append(all, metric.Count(name)) }
	l := r.log
	if l.chargeErr != nil || r.decision.Degraded != nil {
		count("ChargeFailures")
	}
	if r.subject.MissingPlan != "" {
		count("MissingPlans")
	}
	_, invalid := errors.AsType[ratelimit.InvalidRows](l.limitsErr)
	switch {
	case invalid:
		count("LimitsInvalid")
	case errors.Is(l.limitsErr, ratelimit.ErrRowsUnread):
		count("LimitsUnread")
	case l.limitsErr != nil:
		count("LimitsStale")
	}
	return all
}

var refusedBy = map[string]string{
	ratelimit.RuleRecords:  "RefusedByRecords",
	ratelimit.RuleImports:  "RefusedByImports",
	ratelimit.RuleRequests: "RefusedByRequests",
}
