// Package cloudwatch evaluates the alarms and metric filters of a CloudFormation
// template as Amazon CloudWatch does, so that tests can check when an alarm fires.
// Time is simulated, in whole minutes.
//
// The package supports only what template.yaml uses and rejects everything else. It
// follows these pages of the CloudWatch User Guide and the CloudWatch Logs User
// Guide:
//
//   - "Using Amazon CloudWatch alarms": periods, "M out of N", the evaluation of
//     missing data, and the quotas of metric math alarms
//   - "Using metric math": arithmetic, IF and TIME_SERIES
//   - "Filter and pattern syntax": metric filters for JSON log events
//   - "Specification: Embedded metric format"
package cloudwatch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metric identifies a metric.
type Metric struct {
	Namespace, Name string
	Dimensions      string // pairs of the form Name=Value, sorted and separated by commas
}

// Datum is one value of a metric, or several equal values.
type Datum struct {
	At      time.Duration // timestamp, since the start of the simulation
	Arrives time.Duration // when CloudWatch receives it
	Value   float64
	Count   int // how many times Value was reported
}

// Data holds the values of metrics.
type Data map[Metric][]Datum

// Add adds a datum.
func (d Data) Add(m Metric, datum Datum) { d[m] = append(d[m], datum) }

// End returns the arrival time of the last datum.
func (d Data) End() (end time.Duration) {
	for _, data := range d {
		for _, datum := range data {
			end = max(end, datum.Arrives)
		}
	}
	return end
}

// statistic returns a statistic of the values whose timestamps are in [start, end). The
// parameter now is the current time. Values that arrive after the current time are ignored. If
// no value is left, statistic returns false.
func (d Data) statistic(m Metric, stat string, start, end, now time.Duration) (float64, bool) {
	var data []Datum
	count, sum := 0, 0.0
	for _, datum := range d[m] {
		if datum.At >= start && datum.At < end && datum.Arrives <= now {
			data = append(data, datum)
			count += datum.Count
			sum += datum.Value * float64(datum.Count)
		}
	}
	if count == 0 {
		return 0, false
	}
	slices.SortFunc(data, func(a, b Datum) int { return cmp.Compare(a.Value, b.Value) })
	switch stat {
	case "Sum":
		return sum, true
	case "Minimum":
		return data[0].Value, true
	case "Maximum":
		return data[len(data)-1].Value, true
	}
	p, _ := percentile(stat) // ParseAlarm has checked it
	rank := int(math.Ceil(p / 100 * float64(count)))
	for _, datum := range data {
		if rank -= datum.Count; rank <= 0 {
			return datum.Value, true
		}
	}
	return data[len(data)-1].Value, true
}

// percentile parses a statistic such as "p99" and returns 99.
func percentile(stat string) (p float64, err error) {
	digits, ok := strings.CutPrefix(stat, "p")
	if ok {
		p, err = strconv.ParseFloat(digits, 64)
	}
	if !ok || err != nil || p <= 0 || p > 100 {
		return 0, fmt.Errorf("the statistic %q is not supported", stat)
	}
	return p, nil
}

func checkStatistic(stat string) error {
	if slices.Contains([]string{"Sum", "Minimum", "Maximum"}, stat) {
		return nil
	}
	_, err := percentile(stat)
	return err
}
