package repository_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/cloudwatch"
)

// scenario is a series of metrics, with the expected behavior of an alarm.
type scenario struct {
	name  string
	feed  func(w *world)
	fires bool
	stays bool // the alarm still fires at the end, because the cause remains
}

// world collects the metrics and logs of the functions, API Gateway and other AWS services,
// starting at minute 0. Everything reaches CloudWatch one minute late, so the newest minute
// never has data.
type world struct {
	t       *testing.T
	data    cloudwatch.Data
	filters []cloudwatch.Filter
	until   int // minute at which the simulation ends; if 0, it ends 4 hours after the last report
}

// reportDelay is the delay with which metrics and log events reach CloudWatch.
const reportDelay = time.Minute

// afterwards is the time from the last report to the end of a simulation.
const afterwards = 4 * time.Hour

// span is a range of minutes from begin (inclusive) to end (exclusive).
type span struct{ begin, end int }

// log reports a log event n times in each minute of the span.
func (w *world) log(group string, s span, n int, line string) {
	w.t.Helper()
	embedded, err := cloudwatch.Embedded(line)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, line)
	}
	for minute := s.begin; minute < s.end; minute++ {
		for m, value := range embedded {
			w.add(m, minute, value, n, reportDelay)
		}
		for _, f := range w.filters {
			if f.LogGroup == group && f.Matches(line) {
				w.add(f.Metric, minute, 1, n, reportDelay)
			}
		}
	}
}

// functions calls log with the log group of the functions.
func (w *world) functions(s span, n int, line string) {
	w.t.Helper()
	w.log("FunctionLogs", s, n, line)
}

// metric reports a metric of an AWS service once in each minute of the span. The parameter
// dimensions contains pairs of the form Name=Value, sorted and separated by commas.
func (w *world) metric(s span, namespace, name, dimensions string, value float64) {
	for minute := s.begin; minute < s.end; minute++ {
		w.add(cloudwatch.Metric{Namespace: namespace, Name: name, Dimensions: dimensions}, minute, value, 1, reportDelay)
	}
}

func (w *world) add(m cloudwatch.Metric, minute int, value float64, n int, late time.Duration) {
	at := time.Duration(minute)*time.Minute + 30*time.Second
	w.data.Add(m, cloudwatch.Datum{At: at, Arrives: at + late, Value: value, Count: n})
}

// gateway reports the API Gateway metrics and access log lines of n requests per minute
// with the given status.
func (w *world) gateway(s span, n int, status int, line string) {
	w.t.Helper()
	w.log("AccessLogs", s, n, line)
	w.metric(s, "AWS/ApiGateway", "Count", "ApiId=Api", float64(n))
	switch {
	case status >= 500:
		w.metric(s, "AWS/ApiGateway", "5xx", "ApiId=Api", float64(n))
	case status >= 400:
		w.metric(s, "AWS/ApiGateway", "4xx", "ApiId=Api", float64(n))
	}
}

// latency reports n requests per minute with the given latency.
func (w *world) latency(s span, n int, milliseconds float64) {
	for minute := s.begin; minute < s.end; minute++ {
		w.add(cloudwatch.Metric{Namespace: "AWS/ApiGateway", Name: "Latency", Dimensions: "ApiId=Api"}, minute, milliseconds, n, reportDelay)
		w.add(cloudwatch.Metric{Namespace: "AWS/ApiGateway", Name: "Count", Dimensions: "ApiId=Api"}, minute, 1, n, reportDelay)
	}
}

// run reports a metric of one run of a function that reads a stream, such as
// ExportWorker. The run began in the given minute and took the given time. Lambda sends the
// metrics of a run when the run ends. Their timestamp is the start of the run.
//
// Source: AWS Lambda Developer Guide, "Working with Lambda function metrics".
func (w *world) run(function string, minute int, took time.Duration, name string, value float64) {
	w.add(cloudwatch.Metric{Namespace: "AWS/Lambda", Name: name, Dimensions: "FunctionName=" + function + "Function"}, minute, value, 1, reportDelay+took)
}

// monitor reports the measurements of the export monitor, every five minutes.
func (w *world) monitor(s span, age func(minute int) time.Duration) {
	w.t.Helper()
	for minute := s.begin; minute < s.end; minute += 5 {
		w.functions(span{minute, minute + 1}, 1, embedded("export queue", map[string]float64{"OldestQueuedSeconds": age(minute).Seconds()}, []string{"Service"}))
	}
}

// jsonLine returns a line of the functions' log.
func jsonLine(msg string, attrs ...any) string {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info(msg, attrs...)
	return strings.TrimSpace(b.String())
}

// embedded returns a line of the functions' log that defines metrics. Each metric has two sets
// of dimensions: the given set, and the set of Service and Route.
func embedded(msg string, metrics map[string]float64, dimensions []string, more ...any) string {
	attrs := append([]any{"Service", "sluice-prod", "Route", "list-entity"}, more...)
	var defined []any
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		attrs = append(attrs, name, metrics[name])
		defined = append(defined, map[string]any{"Name": name})
	}
	return jsonLine(msg, append(attrs, slog.Group("_aws", "Timestamp", 0, "CloudWatchMetrics", []any{
		map[string]any{"Namespace": "Sluice", "Dimensions": [][]string{dimensions, {"Service", "Route"}}, "Metrics": defined},
	}))...)
}

// request returns the log line of a request. TestLogLinesMoveTheMetrics in package
// functions_test compares it with the lines of the functions.
func request(status int, metrics ...string) string {
	counts := make(map[string]float64)
	for _, name := range metrics {
		counts[name] = 1
	}
	return embedded("request", counts, []string{"Service"}, "request_id", "r", "status", status)
}

// platform returns a log line of the Lambda service about an invocation.
func platform(event, status string) string {
	return fmt.Sprintf(`{"time":"2026-11-21T12:00:00.000Z","type":"platform.%s","record":{"requestId":"r","metrics":{"durationMs":10000.0},"status":"%s"}}`, event, status)
}
