// Package bench measures Sluice beside the alternatives and writes the figures
// into docs/performance.md. Each group of measurements is a package below; they
// run one after the other, on a machine that should do nothing else:
//
//	make bench
//	make bench ONLY=memory    one group; the figures of the others stay
package bench

import (
	"os"
	"testing"

	"sluice/bench/coldstart"
	"sluice/bench/report"
)

// groups are run in this order.
var groups = []struct {
	name    string
	measure func(t *testing.T) []report.Section
}{
	{"coldstart", coldstart.Measure},
}

// TestFigures measures. It fails only when something cannot be measured: no
// test asserts a time.
func TestFigures(t *testing.T) {
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, s := range g.measure(t) {
				os.Stdout.WriteString("\n" + s.Markdown()) //nolint:errcheck // it is for a person to read
			}
		})
	}
}
