// Package progress shows a command's progress: as a bar on a terminal, and as a line every few
// seconds elsewhere.
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
	barInterval  = 200 * time.Millisecond // how often the bar is updated
	lineInterval = 5 * time.Second        // how often a line is written if out is not a terminal
	barWidth     = 24                     // in columns, without the brackets
	minBarWidth  = 8                      // if there is less room, no bar is shown
	defaultWidth = 80                     // in columns; used if the terminal's size is unknown
)

// Noun names what a command counts.
type Noun struct{ One, Many string }

// Count returns the count followed by the noun, which is singular if the count is 1.
func (n Noun) Count(count int64) string {
	if count == 1 {
		return "1 " + n.One
	}
	return fmt.Sprintf("%d %s", count, n.Many)
}

type State struct {
	Done    int64   // items processed, such as records
	Part    float64 // fraction of the work that is done, 0 to 1; negative if unknown
	Details string  // shown last, such as the number of rejected records
	Waiting string  // what the command is waiting for, shown instead of the rate; "" if it is not waiting
}

func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Start calls state regularly and shows its results on out until stop is called. state must be
// safe for concurrent use. The rate and the remaining time are computed from the progress
// since the first State whose Part is known.
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
		stopped <- struct{}{} // after this, the goroutine no longer writes
		if d.terminal {
			fmt.Fprint(d.out, clearLine)
		}
	}
}

// clearLine moves the cursor to the beginning of the line and clears the line.
const clearLine = "\r\x1b[K"

// Println writes a line to out, on which Start may show progress.
func Println(out io.Writer, line string) {
	if IsTerminal(out) {
		line = clearLine + line
	}
	fmt.Fprintln(out, line)
}

type display struct {
	out      io.Writer
	terminal bool
	noun     Noun
	state    func() State
	began    time.Time // start of the interval over which the rate is computed
	from     State     // the State at the start of that interval
}

func (d *display) show(now time.Time) {
	s := d.state()
	if d.from.Part < 0 && s.Part >= 0 {
		d.began, d.from = now, s
	}
	text := d.text(s, now.Sub(d.began))
	if d.terminal {
		columns, _ := Size(d.out, defaultWidth, 0)
		fmt.Fprint(d.out, clearLine+fit(text, s.Part, columns))
	} else {
		fmt.Fprintln(d.out, text)
	}
}

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

// fit returns a line with a bar and text. It omits the bar if part is negative or there is no
// room for it, and truncates text that is longer than the line. The last column stays empty,
// because some terminals begin a new line after it.
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

// Size returns a terminal's width and height, or columns and rows if out is not a terminal.
func Size(out io.Writer, columns, rows int) (int, int) {
	if file, ok := out.(*os.File); ok {
		if c, r, err := term.GetSize(int(file.Fd())); err == nil && c > 0 {
			return c, r
		}
	}
	return columns, rows
}
