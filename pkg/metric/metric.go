// Package metric puts metrics into log lines, in CloudWatch's embedded metric format. CloudWatch
// Logs extracts them, so a metric costs no API call. Source: CloudWatch User Guide,
// "Specification: Embedded metric format".
package metric

import (
	"log/slog"
	"time"
)

const namespace = "Sluice"

// Metric is one value of a metric.
type Metric struct {
	name, unit string
	value      float64
}

// Count counts one occurrence.
func Count(name string) Metric { return Metric{name, "Count", 1} }

func Milliseconds(name string, value float64) Metric { return Metric{name, "Milliseconds", value} }

func Seconds(name string, value float64) Metric { return Metric{name, "Seconds", value} }

// definition tells CloudWatch which member of the line to read as a metric.
type definition struct {
	Name string
	Unit string
}

// directive is a metadata object of the format.
type directive struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []definition
}

// Attrs returns the members of a JSON log line that publish the metrics with the dimension Service
// and, for each name in by, once more with that dimension too. The line must have a member with
// that name, whose value is a string. Attrs returns nil if service is "" or there are no metrics.
func Attrs(service string, at time.Time, metrics []Metric, by ...string) []slog.Attr {
	if service == "" || len(metrics) == 0 {
		return nil
	}
	attrs := []slog.Attr{slog.String("Service", service)}
	d := directive{Namespace: namespace, Dimensions: [][]string{{"Service"}}, Metrics: make([]definition, len(metrics))}
	for _, name := range by {
		d.Dimensions = append(d.Dimensions, []string{"Service", name})
	}
	for i, m := range metrics {
		attrs = append(attrs, slog.Float64(m.name, m.value))
		d.Metrics[i] = definition{m.name, m.unit}
	}
	return append(attrs, slog.Attr{Key: "_aws", Value: slog.GroupValue(
		slog.Int64("Timestamp", at.UnixMilli()), slog.Any("CloudWatchMetrics", []directive{d}),
	)})
}
