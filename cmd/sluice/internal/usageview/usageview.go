// Package usageview shows how much of its limits an address or API key uses: as bars, which
// are drawn once, or kept up to date on a terminal.
package usageview

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
)

// ECMA-48 and xterm escape sequences. enterScreen switches to the alternate screen and hides
// the cursor; leaveScreen does the reverse.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// Screen switches the terminal w to its alternate screen. Each call of show replaces the bars
// there. At the end, the caller must call leave, which restores the terminal.
func Screen(w io.Writer) (show func(client.Usage) error, leave func()) {
	fmt.Fprint(w, enterScreen)
	var m minute
	return func(u client.Usage) error {
		u.Seconds = m.add(u.Seconds)
		width, height := progress.Size(w, 120, 50)
		lines := bars(u, width)
		lines = lines[:min(len(lines), max(height-1, 0))]
		_, err := fmt.Fprint(w, toTop+strings.Join(append(lines, ""), clearLine+"\r\n")+clearBelow)
		return err
	}, func() { fmt.Fprint(w, leaveScreen) }
}

// Bars draws the bars once, as wide as the terminal, or for 120 columns if w is not a
// terminal.
func Bars(w io.Writer, u client.Usage) error {
	width, _ := progress.Size(w, 120, 50)
	u.Seconds = new(minute).add(u.Seconds)
	_, err := fmt.Fprintln(w, strings.Join(bars(u, width), "\n"))
	return err
}

// minute collects the last 60 seconds: the service keeps only the last few of a key.
type minute struct{ known map[int64]client.UsageSecond }

// add returns 60 seconds, of which those that were never added are empty.
func (m *minute) add(seconds []client.UsageSecond) []client.UsageSecond {
	const length = 60
	if len(seconds) == 0 {
		return nil
	}
	if m.known == nil {
		m.known = make(map[int64]client.UsageSecond)
	}
	for _, s := range seconds {
		m.known[s.Second] = s
	}
	last := seconds[len(seconds)-1].Second
	maps.DeleteFunc(m.known, func(second int64, _ client.UsageSecond) bool { return second <= last-length || second > last })
	all := make([]client.UsageSecond, length)
	for i := range all {
		second := last - length + 1 + int64(i)
		all[i] = m.known[second]
		all[i].Second = second
	}
	return all
}

type meter struct {
	name  string
	limit int64
	used  func(client.UsageSecond) int64
}

// meters returns a meter for "records", one for "imports", and one for each route called in
// these seconds.
func meters(limits client.UsageLimits, seconds []client.UsageSecond) []meter {
	list := []meter{
		{"records", limits.Records, func(s client.UsageSecond) int64 { return s.Records }},
		{"imports", limits.Imports, func(s client.UsageSecond) int64 { return s.Imports }},
	}
	routes := make(map[string]int64)
	for _, s := range seconds {
		maps.Copy(routes, s.Requests)
	}
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		list = append(list, meter{"requests " + route, limits.Requests, func(s client.UsageSecond) int64 { return s.Requests[route] }})
	}
	return list
}

// reading is what a meter displays for a span of seconds.
type reading struct {
	bars      strings.Builder
	now, most int64
	full      int // number of seconds in which the limit was reached
}

func (m meter) read(seconds []client.UsageSecond) *reading {
	var r reading
	for _, s := range seconds {
		r.now = m.used(s)
		r.most = max(r.most, r.now)
		if r.now >= m.limit {
			r.full++
		}
		r.bars.WriteRune(bar(r.now, m.limit))
	}
	return &r
}

const (
	wideNumbers = len(" 200 now, at most 200 of 200, 60 full") // width of the numbers in a line's long form, at the default limits
	thinNumbers = len(" 200 of 200")
	enoughBars  = 40 // minimum width of the bars in the long form
	minBars     = 5
)

// bars returns lines of at most width-1 columns, because some terminals begin a new line after
// the last column.
func bars(u client.Usage, width int) []string {
	list := meters(u.Limits, u.Seconds)
	names := 0
	for _, m := range list {
		names = max(names, len(m.name)+1)
	}
	room := width - 1 - names - wideNumbers
	wide := room >= enoughBars
	if !wide {
		room = width - 1 - names - thinNumbers
	}
	seconds := u.Seconds[max(0, len(u.Seconds)-max(room, minBars)):]
	title := fmt.Sprintf("%s, the last %d seconds", strings.Replace(u.Counted, ":", " ", 1), len(seconds))
	if u.Action != "" && u.Action != "limit" {
		title += ", action " + u.Action
	}
	lines := []string{title, ""}
	for _, m := range list {
		r := m.read(seconds)
		line := fmt.Sprintf("%-*s%s %d of %d", names, m.name, &r.bars, r.now, m.limit)
		if wide {
			line = fmt.Sprintf("%-*s%s %d now, at most %d of %d, %d full", names, m.name, &r.bars, r.now, r.most, m.limit, r.full)
		}
		lines = append(lines, line)
	}
	for _, sum := range []struct {
		name string
		of   *client.UsagePeriod
	}{{"day", u.Day}, {"month", u.Month}} {
		if p := sum.of; p != nil {
			lines = append(lines, fmt.Sprintf("%-*s%s records, %s imports since %s", names, sum.name, ofQuota(p.Records, p.Limits.Records), ofQuota(p.Imports, p.Limits.Imports), time.Unix(p.Start, 0).UTC().Format(time.DateOnly)))
		}
	}
	for i, line := range lines {
		lines[i] = string([]rune(line)[:min(utf8.RuneCountInString(line), max(width-1, 0))])
	}
	return lines
}

func ofQuota(used, quota int64) string {
	if quota == 0 {
		return strconv.FormatInt(used, 10)
	}
	return fmt.Sprintf("%d of %d", used, quota)
}

// bar returns a block whose height shows used/limit: full only if used >= limit, and blank
// only if used <= 0.
func bar(used, limit int64) rune {
	switch levels := []rune(" ▁▂▃▄▅▆▇█"); {
	case used <= 0:
		return levels[0]
	case used >= limit:
		return levels[8]
	default:
		return levels[1+used*7/limit]
	}
}
