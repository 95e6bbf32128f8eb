// Package progress shows how far a command is: on a terminal a bar that is
// redrawn, elsewhere a plain line from time to time.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	barInterval  = 200 * time.Millisecond // between two states of the bar on a terminal
	lineInterval = 5 * time.Second        // between two lines elsewhere
	barWidth     = 24
)

// State is how far a command is.
type State struct {
	Done    int64   // records, or what else the noun says
	Part    float64 // of the whole, 0 to 1; negative if the whole is not known
	Details string  // for example how many records were rejected
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Start shows on out what state returns until stop is called. state must be safe
// for concurrent use. noun says what is counted.
func Start(out io.Writer, noun string, state func() State) (stop func()) {
	d := &display{out: out, terminal: IsTerminal(out), noun: noun, state: state, began: time.Now(), from: state()}
	interval := lineInterval
	if d.terminal {
		interval = barInterval
	}
	stopped := make(chan struct{})
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.show(time.Now())
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		stopped <- struct{}{} // received between two states
		if d.terminal {
			fmt.Fprint(d.out, clearLine)
		}
	}
}

// clearLine moves a terminal's cursor to the beginning of its line and clears it.
const clearLine = "\r\x1b[K"

// display is what Start shows.
type display struct {
	out      io.Writer
	terminal bool
	noun     string
	state    func() State
	began    time.Time
	from     State // when it began
}

func (d *display) show(now time.Time) {
	format := "%s\n"
	if d.terminal {
		format = clearLine + "%s"
	}
	fmt.Fprintf(d.out, format, d.text(d.state(), now.Sub(d.began)))
}

// text returns a state in words, with a bar on a terminal.
func (d *display) text(s State, elapsed time.Duration) string {
	var b strings.Builder
	if d.terminal && s.Part >= 0 {
		full := int(s.Part * barWidth)
		fmt.Fprintf(&b, "[%s%s] ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full))
	}
	fmt.Fprintf(&b, "%d %s", s.Done, d.noun)
	if s.Part >= 0 {
		fmt.Fprintf(&b, ", %d %%", int(s.Part*100))
	}
	fmt.Fprintf(&b, ", %.0f/s", float64(s.Done-d.from.Done)/max(elapsed.Seconds(), 1e-3))
	if part := s.Part - d.from.Part; part > 0 && s.Part >= 0 {
		left := time.Duration(float64(elapsed) * (1 - s.Part) / part)
		fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
	}
	if s.Details != "" {
		b.WriteString(", " + s.Details)
	}
	return b.String()
}
