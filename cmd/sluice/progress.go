package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	barInterval  = 200 * time.Millisecond // between two states of the bar on a terminal
	lineInterval = 5 * time.Second        // between two lines elsewhere
	barWidth     = 24
)

// state is what progress shows.
type state struct {
	done    int64   // records
	part    float64 // of the whole, 0 to 1; negative where the whole is not known
	details string  // for example how many were refused
}

// progress shows how far a command is: on a terminal a bar that is redrawn,
// elsewhere a plain line from time to time.
type progress struct {
	out      io.Writer
	terminal bool
	noun     string
	state    func() state
	began    time.Time
	from     state // when it began

	stop chan struct{}
	wg   sync.WaitGroup
}

// isTerminal reports whether w is one.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// startProgress shows current on out until it is stopped.
func startProgress(out io.Writer, noun string, current func() state) *progress {
	p := &progress{out: out, terminal: isTerminal(out), noun: noun, state: current, began: time.Now(), from: current(), stop: make(chan struct{})}
	interval := lineInterval
	if p.terminal {
		interval = barInterval
	}
	p.wg.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show(time.Now())
			case <-p.stop:
				if p.terminal {
					fmt.Fprint(p.out, "\r\x1b[K")
				}
				return
			}
		}
	})
	return p
}

// close takes the bar away.
func (p *progress) close() {
	close(p.stop)
	p.wg.Wait()
}

func (p *progress) show(now time.Time) {
	text := p.text(p.state(), now.Sub(p.began))
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K"+text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// text is a state in words, with a bar on a terminal.
func (p *progress) text(s state, elapsed time.Duration) string {
	var b strings.Builder
	if p.terminal && s.part >= 0 {
		full := int(s.part * barWidth)
		fmt.Fprintf(&b, "[%s%s] ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full))
	}
	fmt.Fprintf(&b, "%d %s", s.done, p.noun)
	if s.part >= 0 {
		fmt.Fprintf(&b, ", %d %%", int(s.part*100))
	}
	fmt.Fprintf(&b, ", %.0f/s", float64(s.done-p.from.done)/max(elapsed.Seconds(), 1e-3))
	if part := s.part - p.from.part; part > 0 && s.part >= 0 {
		left := time.Duration(float64(elapsed) * (1 - s.part) / part)
		fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
	}
	if s.details != "" {
		b.WriteString(", " + s.details)
	}
	return b.String()
}
