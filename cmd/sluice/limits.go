package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "sluice/pkg/client"
)

// limitsOptions are the flags of limits.
type limitsOptions struct {
	connection
	address string
	once    bool
	json    bool
}

func limitsCommand(getenv func(string) string) *cobra.Command {
	o := limitsOptions{connection: connection{getenv: getenv}}
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Watch what an address uses of its limits",
		Long: `Watch what an address uses of its limits: a bar for each of the last 60 seconds
and each rule. A bar of full height is a window that was full. It asks once a
second, which costs one request of the route usage; Ctrl-C ends it.

What is not a terminal gets a line for each second, two seconds later, and with
--json the service's answers, one a line.

The key needs the scope dashboard.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice limits
  sluice limits --address 192.0.2.1 --once
  sluice limits --json | jq '.seconds[-2].imports'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLimits(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.address, "address", "", "address to watch (default this machine's, as the service sees it)")
	cmd.Flags().BoolVar(&o.once, "once", false, "show it once and end")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the service's answers as JSON")
	return cmd
}

// pollInterval is how often the service is asked: as often as there is something
// new to see.
const pollInterval = time.Second

// runLimits is the command.
func runLimits(ctx context.Context, o limitsOptions, stdout io.Writer) error {
	client, err := o.client(api.Config{})
	if err != nil {
		return err
	}
	show := showLines()
	switch {
	case o.json:
		show = func(w io.Writer, u api.Usage) error { return json.NewEncoder(w).Encode(u) }
	case o.once:
		show = showBars
	case isTerminal(stdout):
		fmt.Fprint(stdout, enterScreen)
		defer fmt.Fprint(stdout, leaveScreen)
		show = redraw
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		u, err := client.Usage(ctx, o.address)
		if err == nil {
			err = show(stdout, u)
		}
		switch {
		case ctx.Err() != nil && !o.once:
			return nil // that is how it ends
		case err != nil:
			return interrupted(ctx, err)
		case o.once:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// What a terminal understands (ECMA-48 and xterm): another screen, without a
// cursor, and back to what was there before.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// redraw shows bars over those that were there.
func redraw(w io.Writer, u api.Usage) error {
	width, height := screenSize(w)
	lines := bars(u, width)
	if len(lines) >= height {
		lines = lines[:max(height-1, 0)]
	}
	var b bytes.Buffer
	b.WriteString(toTop)
	for _, line := range lines {
		b.WriteString(line + clearLine + "\r\n")
	}
	b.WriteString(clearBelow)
	_, err := w.Write(b.Bytes())
	return err
}

// showBars shows bars below what was there.
func showBars(w io.Writer, u api.Usage) error {
	width, _ := screenSize(w)
	_, err := io.WriteString(w, strings.Join(bars(u, width), "\n")+"\n")
	return err
}

// screenSize is that of a terminal, or a usual one.
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
	used  func(api.UsageSecond) int64
}

// meters are those of the rules, and of the routes that were called.
func meters(u api.Usage) []meter {
	list := []meter{
		{"records", u.Limits.Records, func(s api.UsageSecond) int64 { return s.Records }},
		{"imports", u.Limits.Imports, func(s api.UsageSecond) int64 { return s.Imports }},
	}
	routes := make(map[string]bool)
	for _, s := range u.Seconds {
		for route := range s.Requests {
			routes[route] = true
		}
	}
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		list = append(list, meter{"requests " + route, u.Limits.Requests, func(s api.UsageSecond) int64 { return s.Requests[route] }})
	}
	return list
}

// Widths of the columns beside the bars.
const (
	nameWidth   = 27
	numberWidth = 34
)

// bars are the lines of a picture of u that is at most width wide, if that is
// enough for a few bars.
func bars(u api.Usage, width int) []string {
	seconds := u.Seconds[max(0, len(u.Seconds)-max(width-nameWidth-numberWidth, 5)):]
	lines := []string{
		fmt.Sprintf("%s, the last %d seconds", u.Address, len(seconds)),
		"",
	}
	for _, m := range meters(u) {
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

// bar is as high as the part of a limit that was used. Only what reaches the
// limit is of full height, and only nothing is blank.
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

// showLines shows each second once, in a line, when it changes no more.
func showLines() func(io.Writer, api.Usage) error {
	var shown int64
	return func(w io.Writer, u api.Usage) error {
		done := u.Seconds[:max(0, len(u.Seconds)-settled)]
		if shown == 0 && len(done) > 1 {
			done = done[len(done)-1:] // it begins now
		}
		for _, s := range done {
			if s.Second <= shown {
				continue
			}
			shown = s.Second
			var b strings.Builder
			b.WriteString(time.Unix(s.Second, 0).UTC().Format(time.RFC3339))
			for _, m := range meters(api.Usage{Limits: u.Limits, Seconds: []api.UsageSecond{s}}) {
				fmt.Fprintf(&b, ", %s %d/%d", m.name, m.used(s), m.limit)
			}
			if _, err := fmt.Fprintln(w, b.String()); err != nil {
				return err
			}
		}
		return nil
	}
}
