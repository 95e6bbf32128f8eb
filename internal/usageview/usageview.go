// Package usageview shows what an address uses of its limits: as bars, on a
// terminal or once, or as a line for each second.
package usageview

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"sluice/pkg/client"
)

// What a terminal understands (ECMA-48 and xterm): another screen, without a
// cursor, and back to what was there before.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// Screen shows bars on a screen of its own on the terminal w, each time over the
// last ones. The caller must call leave, which restores the terminal.
func Screen(w io.Writer) (show func(client.Usage) error, leave func()) {
	fmt.Fprint(w, enterScreen)
	return func(u client.Usage) error {
		width, height := screenSize(w)
		lines := bars(u, width)
		lines = lines[:min(len(lines), max(height-1, 0))]
		_, err := fmt.Fprint(w, toTop+strings.Join(append(lines, ""), clearLine+"\r\n")+clearBelow)
		return err
	}, func() { fmt.Fprint(w, leaveScreen) }
}

// Bars writes bars to w, as wide as w if it is a terminal.
func Bars(w io.Writer, u client.Usage) error {
	width, _ := screenSize(w)
	_, err := fmt.Fprintln(w, strings.Join(bars(u, width), "\n"))
	return err
}

// screenSize returns the size of a terminal, or a usual one.
func screenSize(w io.Writer) (width, height int) {
	if file, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width, height
		}
	}
	return 120, 50
}

// meter is what is shown of one counter.
type meter struct {
	name  string
	limit int64
	used  func(client.UsageSecond) int64
}

// meters returns the meters of the rules, and of the routes that were called.
func meters(limits client.UsageLimits, seconds ...client.UsageSecond) []meter {
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

// Widths of the columns beside the bars.
const (
	nameWidth   = 27
	numberWidth = 34
)

// bars returns the lines of a picture of u that is at most width wide, if that is
// enough for a few bars.
func bars(u client.Usage, width int) []string {
	seconds := u.Seconds[max(0, len(u.Seconds)-max(width-nameWidth-numberWidth, 5)):]
	title := fmt.Sprintf("%s, the last %d seconds", u.Address, len(seconds))
	if u.Action != "" && u.Action != "limit" {
		title += ", action " + u.Action
	}
	lines := []string{title, ""}
	for _, m := range meters(u.Limits, u.Seconds...) {
		var line strings.Builder
		var most, now int64
		full := 0
		for _, s := range seconds {
			now = m.used(s)
			most = max(most, now)
			if now >= m.limit {
				full++
			}
			line.WriteRune(bar(now, m.limit))
		}
		lines = append(lines, fmt.Sprintf("%-*s%s %d now, at most %d of %d, %d full", nameWidth, m.name, &line, now, most, m.limit, full))
	}
	return lines
}

// bar returns a bar as high as the part of a limit that was used. Only what reaches
// the limit has full height, and only 0 is blank.
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

// settled is how many of the latest seconds may still change.
const settled = 2

// Lines returns a function that writes a line to w for each second that does not
// change any more and was not written before. The first call writes only the last
// of them.
func Lines(w io.Writer) func(client.Usage) error {
	var shown int64
	return func(u client.Usage) error {
		done := u.Seconds[:max(0, len(u.Seconds)-settled)]
		if shown == 0 && len(done) > 1 {
			done = done[len(done)-1:]
		}
		for _, s := range done {
			if s.Second <= shown {
				continue
			}
			shown = s.Second
			line := time.Unix(s.Second, 0).UTC().Format(time.RFC3339)
			for _, m := range meters(u.Limits, s) {
				line += fmt.Sprintf(", %s %d/%d", m.name, m.used(s), m.limit)
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	}
}
