// Package growth measures what a request costs as the service grows: with the
// addresses that call, the instances that serve, and the records that are kept.
package growth

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"sluice/bench/report"
)

// most is how much dearer the last point of an axis may be than the first.
const most = 1.10

// Measure runs everything.
func Measure(t *testing.T) []report.Section {
	return []report.Section{addresses(t), instances(t), records(t)}
}

// axis is what grows, and what a request costs at each point of it.
type axis struct {
	name   string
	points []int
	slice  func(point int) time.Duration // what one of a number of requests takes
	why    string                        // it grows, if that is known
}

// measured is the cost at each point.
type measured struct {
	took  []time.Duration // medians
	ratio []float64       // to the first point: medians of the ratios within a round
}

// measure has the points take turns for so many rounds.
func (a axis) measure(rounds int) measured {
	took := make([][]float64, len(a.points))
	ratio := make([][]float64, len(a.points))
	for round := range rounds {
		runtime.GC()
		now := make([]float64, len(a.points))
		for i := range a.points {
			i = (i + round) % len(a.points) // none is always the first
			now[i] = float64(a.slice(i))
		}
		for i, v := range now {
			took[i], ratio[i] = append(took[i], v), append(ratio[i], v/now[0])
		}
	}
	var m measured
	for i := range a.points {
		m.took, m.ratio = append(m.took, time.Duration(median(took[i]))), append(m.ratio, median(ratio[i]))
	}
	return m
}

// row is the axis as a row of a table, and its claim.
func (a axis) row(m measured) ([]string, report.Claim) {
	row := []string{a.name}
	for i, took := range m.took {
		row = append(row, fmt.Sprintf("%s (%s)", report.Number(float64(took.Nanoseconds())/1000), report.Number(m.ratio[i])))
	}
	first, last := a.points[0], a.points[len(a.points)-1]
	claim := report.AtMost(fmt.Sprintf("%s: cost at %d to that at %d", a.name, last, first), m.ratio[len(m.ratio)-1], most)
	claim.Why = a.why
	return row, claim
}

func header(of string, points []int) []string {
	h := []string{of}
	for _, p := range points {
		h = append(h, fmt.Sprint(p))
	}
	return h
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
