// Package report is the form that all figures of this module take: sections
// with a table each, and claims that a figure keeps or misses.
package report

import (
	"fmt"
	"strings"
)

// Section is what one group of measurements has found.
type Section struct {
	Title  string
	About  string // what was measured and how, in a sentence or two
	Header []string
	Rows   [][]string // each as long as Header
	Claims []Claim
}

// Claim is a figure with a bound that it is meant to keep. Figures are ratios
// within one run, counts or sizes: never times, which depend on the machine.
type Claim struct {
	Line  string // what the figure is
	Value float64
	Bound float64
	Least bool   // Value is to be at least Bound; otherwise at most
	Why   string // of a miss, if the reason is known
}

// AtLeast is the claim that value is no less than bound.
func AtLeast(line string, value, bound float64) Claim {
	return Claim{Line: line, Value: value, Bound: bound, Least: true}
}

// AtMost is the claim that value is no more than bound.
func AtMost(line string, value, bound float64) Claim {
	return Claim{Line: line, Value: value, Bound: bound}
}

// Kept reports whether Value keeps Bound.
func (c Claim) Kept() bool {
	if c.Least {
		return c.Value >= c.Bound
	}
	return c.Value <= c.Bound
}

// Markdown is the section as Markdown: a heading of level 3, About, the table
// and the claims.
func (s Section) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n", s.Title, s.About)
	table(&b, s.Header, s.Rows)
	if len(s.Claims) > 0 {
		b.WriteString("\n" + Claims(s.Claims))
	}
	return b.String()
}

// Claims is a table of claims in Markdown.
func Claims(claims []Claim) string {
	var b strings.Builder
	rows := make([][]string, len(claims))
	for i, c := range claims {
		rows[i] = c.row()
	}
	table(&b, []string{"Line", "Figure", "Bound", "Kept"}, rows)
	return b.String()
}

func (c Claim) row() []string {
	bound, kept := "at most ", "yes"
	if c.Least {
		bound = "at least "
	}
	if !c.Kept() {
		kept = "**no**"
		if c.Why != "" {
			kept += ": " + c.Why
		}
	}
	return []string{c.Line, Number(c.Value), bound + Number(c.Bound), kept}
}

// Number is a figure with three digits that count, or all that stand before the
// point.
func Number(v float64) string {
	switch {
	case v != v:
		return "–"
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", v), ".00")
}

// table writes a Markdown table whose columns line up.
func table(b *strings.Builder, header []string, rows [][]string) {
	width := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)), 3)
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			fmt.Fprintf(b, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
	}
	line(header)
	for i := range header {
		b.WriteString("|" + strings.Repeat("-", width[i]+2))
	}
	b.WriteString("|\n")
	for _, row := range rows {
		line(row)
	}
}
