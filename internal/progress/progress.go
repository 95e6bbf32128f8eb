// Package progress shows how far a command is: on a terminal a bar that is
// redrawn, elsewhere a plain line from time to time.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	barInterval  = 200 * time.Millisecond // between two states of the bar on a terminal
	lineInterval = 5 * time.Second        // between two lines elsewhere
	barWidth     = 24                     // at most, without its brackets
	minBarWidth  = 8                      // below which there is no bar
	defaultWidth = 80                     // of a terminal that does not say
)

// Noun is a word for what is counted.
type Noun struct{ One, Many string }

// Count returns a number and the noun in the form that goes with it.
func (n Noun) Count(count int64) string {
	if count == 1 {
		return "1 " + n.One
	}
	return fmt.Sprintf("%d %s", count, n.Many)
}

// State is how far a command is.
type State struct {
	Done    int64   // records, or what else the noun says
	Part    float64 // of the whole, 0 to 1; negative if the whole is not known
	Details string  // for example how many records were rejected
	Waiting string  // what the command waits for, in place of its rate; "" while it goes on
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Start shows on out what state returns until stop is called. state must be safe
// for concurrent use. Rates and times count from the first state whose Part is known.
func Start(out io.Writer, noun Noun, state func() State) (stop func()) {
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

// Println writes a line to a terminal that also shows the progress.
func Println(out io.Writer, line string) { fmt.Fprint(out, clearLine+line+"\n") }

// display is what Start shows.
type display struct {
	out      io.Writer
	terminal bool
	noun     Noun
	state    func() State
	began    time.Time
	from     State // at began
}

func (d *display) show(now time.Time) {
	s := d.state()
	if d.from.Part < 0 && s.Part >= 0 {
		d.began, d.from = now, s
	}
	text := d.text(s, now.Sub(d.began))
	if d.terminal {
		fmt.Fprint(d.out, clearLine+fit(text, s.Part, width(d.out)))
	} else {
		fmt.Fprintln(d.out, text)
	}
}

// text returns a state in words.
func (d *display) text(s State, elapsed time.Duration) string {
	words := []string{d.noun.Count(s.Done)}
	if s.Part >= 0 {
		words = append(words, fmt.Sprintf("%d %%", int(s.Part*100)))
	}
	if s.Waiting != "" {
		return strings.Join(append(words, s.Waiting), ", ")
	}
	words = append(words, fmt.Sprintf("%.0f/s", float64(s.Done-d.from.Done)/max(elapsed.Seconds(), 1e-3)))
	if part := s.Part - d.from.Part; part > 0 && s.Part >= 0 && d.from.Part >= 0 {
		left := time.Duration(float64(elapsed) * (1 - s.Part) / part)
		words = append(words, fmt.Sprintf("%s left", left.Round(time.Second)))
	}
	if s.Details != "" {
		words = append(words, s.Details)
	}
	return strings.Join(words, ", ")
}

// fit returns text with a bar before it, if part is known and there is room, or as
// much of text as fits. The last of the columns stays free, because a terminal may
// begin a new line after it.
func fit(text string, part float64, columns int) string {
	room := columns - 1 - utf8.RuneCountInString(text)
	if room < 0 {
		return string([]rune(text)[:max(columns-1, 0)])
	}
	bar := min(room-len("[] "), barWidth)
	if part < 0 || bar < minBarWidth {
		return text
	}
	full := int(part * float64(bar))
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", bar-full), text)
}

// width returns how many columns a terminal has now.
func width(out io.Writer) int {
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultWidth
}
