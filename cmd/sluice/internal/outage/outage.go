// Package outage reports, on a terminal or in a log, that a service is not responding and when the
// client will try again.
package outage

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
)

// Report tells the user about tries that got no response. It is safe for concurrent use.
type Report struct {
	out      io.Writer
	url      string // URL of the service
	progress bool   // whether the caller shows its progress on a terminal

	mu      sync.Mutex
	waiting bool      // whether the last try got no response
	tries   int       // consecutive tries without a response
	next    time.Time // when the next try is due
}

// New returns a Report that writes to out about the service at url. showsProgress says whether
// the caller shows its progress and the result of Waiting on out. If so, and if out is a
// terminal, the Report writes a line for the first try without a response. Otherwise it writes
// a line for each such try.
func New(out io.Writer, url string, showsProgress bool) *Report {
	return &Report{out: out, url: url, progress: showsProgress && progress.IsTerminal(out)}
}

// Note records a try. It is meant for client.Config.OnTry.
func (r *Report) Note(t client.Try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Status != 0 || t.Err == nil || t.Wait == 0 {
		r.waiting, r.tries = false, 0 // the service responded, or the command itself will report the error
		return
	}
	r.tries++
	r.waiting, r.next = true, time.Now().Add(t.Wait)
	switch line := fmt.Sprintf("No response from %s: %s.", r.url, reason(t.Err)); {
	case !r.progress:
		fmt.Fprintln(r.out, line+" "+nextTry(t.Wait))
	case r.tries == 1:
		progress.Println(r.out, line)
	}
	if r.tries == askAfter {
		progress.Println(r.out, isItRunning)
	}
}

// After askAfter tries without a response, a Report asks whether the service is running.
const (
	askAfter    = 3
	isItRunning = "Is the server running? \"sluice serve\" starts one on this machine; --url and SLUICE_URL name another."
)

func nextTry(wait time.Duration) string {
	if wait < time.Second/2 {
		return "Trying again."
	}
	return fmt.Sprintf("Next try in %.0f s.", wait.Seconds())
}

// Waiting returns a note about when the next try is due, or "" while the service is responding.
func (r *Report) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.waiting {
		return ""
	}
	return fmt.Sprintf("no response, next try in %.0f s", math.Ceil(max(time.Until(r.next), 0).Seconds()))
}

// reason returns a network error's text without the leading operation and addresses.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}
