package localserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/pkg/bolt"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
)

// durations are the upper bounds of the buckets of latencies, in seconds: a read takes 0.1 ms, and a
// commit on a slow disk 100.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// metrics are what Prometheus reads. docs/metrics.md describes them.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	records   *prometheus.CounterVec
	decisions *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	observed  prometheus.Counter
	noPlan    prometheus.Counter
	charge    prometheus.Histogram
	failures  prometheus.Counter
	reads     prometheus.Histogram
	commits   prometheus.Histogram
	writes    prometheus.Histogram
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sluice", Name: name, Help: help}, labels)
}

func latency(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: "sluice", Name: name, Help: help, Buckets: durations}
}

func newMetrics() *metrics {
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  counter("http_requests_total", "Requests served.", "route", "class", "status"),
		latency:   prometheus.NewHistogramVec(latency("http_request_duration_seconds", "Time from the header of a request to its response."), []string{"route"}),
		records:   counter("records_returned_total", "Records in responses.", "route"),
		decisions: counter("decisions_total", "Requests by what the limits decided: allowed, refused, blocked, or failed if nothing could be decided.", "decision"),
		refusals:  counter("refusals_total", "Requests that a rule refused. One request may count for several rules.", "rule"),
		rejected:  counter("access_refusals_total", "Requests rejected because of their API key, origin or host name.", "reason"),
		noPlan:    prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Name: "missing_plans_total", Help: "Requests counted by a key whose plan does not exist, so that the defaults applied."}),
		observed:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Name: "observed_total", Help: "Requests above a limit that passed because their row of limits only observes."}),
		charge:    prometheus.NewHistogram(latency("charge_duration_seconds", "Time of a call to the store of counters.")),
		failures:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sluice", Name: "charge_failures_total", Help: "Charges that failed."}),
		reads:     prometheus.NewHistogram(latency("store_read_duration_seconds", "Time of a read transaction of the file with the records.")),
		commits:   prometheus.NewHistogram(latency("store_commit_duration_seconds", "Time of a write transaction, with its sync to disk.")),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sluice", Name: "store_commit_writes", Help: "How many writes share a transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
	}
	m.registry.MustRegister(m.requests, m.latency, m.records, m.decisions, m.refusals, m.rejected, m.observed, m.noPlan, m.charge, m.failures,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observe counts a request.
func (m *metrics) observe(o httpapi.Observed) {
	m.requests.WithLabelValues(o.Route, string(o.Class), strconv.Itoa(o.Status)).Inc()
	m.latency.WithLabelValues(o.Route).Observe(o.Duration.Seconds())
	if o.Records > 0 {
		m.records.WithLabelValues(o.Route).Add(float64(o.Records))
	}
	if o.Charge > 0 {
		m.charge.Observe(o.Charge.Seconds())
	}
	if o.ChargeFailed {
		m.failures.Inc()
	}
	if o.AccessRefused != "" {
		m.rejected.WithLabelValues(o.AccessRefused).Inc()
	}
	if o.MissingPlan {
		m.noPlan.Inc()
	}
	if o.Decision.Observed {
		m.observed.Inc()
	}
	decision := "failed"
	switch d := o.Decision; {
	case d.Allowed:
		decision = "allowed"
	case d.Blocked:
		decision = "blocked"
	case !o.ChargeFailed:
		decision = "refused"
		for _, rule := range d.Violated() {
			m.refusals.WithLabelValues(rule).Inc()
		}
	}
	m.decisions.WithLabelValues(decision).Inc()
}

func (m *metrics) gauge(name, help string, labels prometheus.Labels, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sluice", Name: name, Help: help, ConstLabels: labels}, value))
}

// watch adds metrics of a server's files and jobs.
func (m *metrics) watch(b *backend, jobs *background) {
	ended := counter("jobs_ended_total", "Jobs that a run has ended.", "kind", "status")
	m.registry.MustRegister(ended)
	for kind, runner := range jobs.byKind() {
		runner.OnEnd(func(s job.Status) { ended.WithLabelValues(kind, string(s)).Inc() })
		m.gauge("jobs", "Jobs that have not ended.", prometheus.Labels{"kind": kind, "state": "waiting"}, func() float64 { n, _ := runner.Load(); return float64(n) })
		m.gauge("jobs", "Jobs that have not ended.", prometheus.Labels{"kind": kind, "state": "running"}, func() float64 { _, n := runner.Load(); return float64(n) })
	}
	if b.embedded == nil {
		return
	}
	m.registry.MustRegister(m.reads, m.commits, m.writes)
	b.embedded.Observe(&bolt.Observer{
		Read: func(took time.Duration) { m.reads.Observe(took.Seconds()) },
		Commit: func(writes int, took time.Duration) {
			m.commits.Observe(took.Seconds())
			m.writes.Observe(float64(writes))
		},
	})
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "sluice", Name: "store_written_bytes_total", Help: "Bytes of the pages that commits have written."}, func() float64 { return float64(b.embedded.WrittenBytes()) }))
	m.gauge("store_file_bytes", "Size of the file with the records.", nil, func() float64 {
		info, err := os.Stat(b.embedded.Path)
		if err != nil {
			return 0
		}
		return float64(info.Size())
	})
	m.gauge("records", "Records in the file.", prometheus.Labels{"resource": "entity"}, func() float64 { n, _, _ := b.embedded.Records(); return float64(n) })
	m.gauge("records", "Records in the file.", prometheus.Labels{"resource": "event"}, func() float64 { _, n, _ := b.embedded.Records(); return float64(n) })
	m.gauge("store_free_bytes", "Part of the file that is free for later writes.", nil, func() float64 { return float64(b.embedded.FreeBytes()) })
}

// startMetrics serves metrics at addr, unless it is empty, until stop is called. It must be called
// before b is used.
func startMetrics(addr string, b *backend, jobs *background, stdout io.Writer) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	m := newMetrics()
	m.watch(b, jobs)
	b.observe = m.observe
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout}
	go server.Serve(listener) //nolint:errcheck // fails when the server is closed
	fmt.Fprintf(stdout, "Metrics are at http://%s/metrics\n", listener.Addr())
	return func() { server.Close() }, nil //nolint:errcheck // nothing depends on it
}
