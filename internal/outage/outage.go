// Package outage tells people that a service cannot be reached, and when a client
// calls it again.
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

	"sluice/internal/progress"
	"sluice/pkg/client"
)

// Report writes a line when a client gets no response. It is safe for concurrent use.
type Report struct {
	out      io.Writer
	url      string // of the service
	progress bool

	mu      sync.Mutex
	waiting bool      // for a response, since one was missing
	next    time.Time // try
}

// New returns a Report on the service at url that writes to out. If the caller shows
// its progress on a terminal, together with Waiting, the Report writes only when an
// outage begins. Otherwise it writes for every try without a response.
func New(out io.Writer, url string, showsProgress bool) *Report {
	return &Report{out: out, url: url, progress: showsProgress && progress.IsTerminal(out)}
}

// Note records a try.
func (r *Report) Note(t client.Try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Status != 0 || t.Err == nil || t.Wait == 0 {
		r.waiting = false // there is a response, or an error that the command reports
		return
	}
	began := !r.waiting
	r.waiting, r.next = true, time.Now().Add(t.Wait)
	switch {
	case !r.progress:
		fmt.Fprintf(r.out, "No response from %s: %s. Next try in %.1f s.\n", r.url, reason(t.Err), t.Wait.Seconds())
	case began:
		progress.Println(r.out, fmt.Sprintf("No response from %s: %s.", r.url, reason(t.Err)))
	}
}

// Waiting returns when the next try is, in words, or "" if the service responds.
func (r *Report) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.waiting {
		return ""
	}
	return fmt.Sprintf("no response, next try in %.0f s", math.Ceil(max(time.Until(r.next), 0).Seconds()))
}

// reason returns why there is no response, without the addresses and operations
// that errors of the network begin with.
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
