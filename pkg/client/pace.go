package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// cleanWindows is how many windows without a refusal it takes to give back
	// one of the places that were left to others.
	cleanWindows = 10

	// maxReset is where a reset is no longer Unix time in seconds.
	maxReset = 1 << 33
)

// pacer holds requests back until the limits have room for them.
//
// The service counts by windows, the seconds of its own clock, and every response
// says in which window its request was counted (X-RateLimit-Reset is its end)
// and how much of each rule was left then (RateLimit). A request that is sent
// now may be counted in the window that has certainly begun by what is known of
// the service's clock, or in a later one. So it may go if it would fit into
// each of them, together with all requests that have no response yet: any of
// those may be counted in any of them too. When a window is full, the next is
// waited for until it has certainly begun (clock).
//
// What was left is taken from the responses, so requests by others at the same
// address count too. What they have in flight cannot be known, so it shows
// as a refusal; then as many places are left free at the end of a window as
// requests were refused, and given back one by one when no more are.
//
// Until a response has told a limit, one request goes at a time.
type pacer struct {
	base time.Time // of the client's clock, which no setting of the time moves

	mu      sync.Mutex
	gap     time.Duration // at least, between two requests
	next    time.Duration // nothing may go before this time
	clock   clock
	rules   map[string]*rule // by charge.key
	changed chan struct{}    // closed when a response has come
}

// charge is what a request costs of a rule.
type charge struct {
	rule string // the service's name: records, imports, requests
	key  string // of the client's state: requests are counted by route
	cost int64
}

// rule is the state of one rule.
type rule struct {
	line     chan struct{}   // holds whoever is next
	limit    int64           // 1 until a response has told it
	inFlight int64           // cost of the requests that have no response yet
	used     map[int64]int64 // by window, as the responses say
	reserve  int64           // places left to others at the end of a window
	refused  int64           // window of the latest refusal, or of the latest place given back
	until    time.Duration   // nothing may go before this time
}

// newPacer returns a pacer that admits at most rate requests a second; 0 for no
// bound but the limits.
func newPacer(rate int) *pacer {
	p := &pacer{base: time.Now(), clock: unknown, rules: make(map[string]*rule), changed: make(chan struct{})}
	if rate > 0 {
		p.gap = time.Second / time.Duration(rate)
	}
	return p
}

func (p *pacer) now() time.Duration { return time.Since(p.base) }

// rule returns the state of a charge's rule. The caller holds p.mu.
func (p *pacer) rule(c charge) *rule {
	r, ok := p.rules[c.key]
	if !ok {
		r = &rule{line: make(chan struct{}, 1), limit: 1, used: make(map[int64]int64)}
		p.rules[c.key] = r
	}
	return r
}

// enter waits until a request may be sent, and returns the time. It fails when ctx
// is done, or at once when the service has asked to wait for longer than most. leave
// must follow. Requests whose last charge is of the same rule wait in line.
func (p *pacer) enter(ctx context.Context, charges []charge, most time.Duration) (sent time.Duration, failure *Error) {
	p.mu.Lock()
	line := p.rule(charges[len(charges)-1]).line
	p.mu.Unlock()
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return 0, &Error{Err: ctx.Err()}
	}
	for {
		now, at, changed := p.admit(charges)
		if changed == nil {
			return now, nil
		}
		var timeout <-chan time.Time // never, if only a response can make room
		switch wait := at - now; {
		case wait > most:
			return 0, &Error{Status: http.StatusTooManyRequests, RetryAfter: wait, retryable: true,
				Detail: fmt.Sprintf("an earlier response asked to wait, for %s more", wait.Round(time.Second))}
		case wait > 0:
			timeout = time.After(wait)
		}
		select {
		case <-timeout:
		case <-changed:
		case <-ctx.Done():
			return 0, &Error{Err: ctx.Err()}
		}
	}
}

// admit counts a request as sent if it fits; changed is nil then. Otherwise it may fit
// at a time, if that is after now, or when changed is closed.
func (p *pacer) admit(charges []charge) (now, at time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.now()
	if at = p.next; at > now {
		changed = p.changed
	}
	for _, c := range charges {
		room, end := p.rule(c).room(c.cost, p.clock)
		if at = max(at, end); !room || end > now {
			changed = p.changed
		}
	}
	if changed == nil {
		p.next = now + p.gap
		for _, c := range charges {
			p.rule(c).inFlight += c.cost
		}
	}
	return now, at, changed
}

// room reports whether a cost fits beside the requests in flight, and returns the time
// at which the windows have ended that it does not fit into.
func (r *rule) room(cost int64, c clock) (ok bool, at time.Duration) {
	room := r.limit - r.reserve
	cost = min(cost, room) + r.inFlight // a cost that never fits is sent by itself; the service will reject it
	at = r.until
	for window, used := range r.used {
		if used+cost > room {
			at = max(at, c.begin(window+1))
		}
	}
	return cost <= room, at
}

// leave takes note of the response to a request; header is nil without a response.
func (p *pacer) leave(charges []charge, sent time.Duration, status int, header http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, refused := p.now(), status == http.StatusTooManyRequests
	reset, err := parameter(header, "X-RateLimit-Reset", "")
	told := err == nil && 0 < reset && reset < maxReset
	setBack := told && p.clock.observe(sent, now, reset)
	if setBack {
		for _, r := range p.rules {
			clear(r.used)
		}
	}
	wait := retryAfter(header, time.Now())
	for _, c := range charges {
		r := p.rule(c)
		r.inFlight -= c.cost
		// Retry-After is in whole seconds, rounded up: the end of a window is more exact.
		if refused && (!told || wait > time.Second) {
			r.until = max(r.until, now+wait)
		}
		if limit, left, ok := standing(header, c.rule); ok && told {
			r.note(c.cost, refused, reset-1, limit, left)
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// note takes over what a response says of a window.
func (r *rule) note(cost int64, refused bool, window, limit, left int64) {
	r.limit = limit
	used := limit - left
	if refused && left < cost {
		used = limit // the service says to stop
		r.reserve = min(r.reserve+1, limit/4)
		r.refused = window
	}
	r.used[window] = max(r.used[window], used)
	if r.reserve > 0 && window >= r.refused+cleanWindows {
		r.reserve--
		r.refused = window
	}
	for w := range r.used {
		if w < window-2 {
			delete(r.used, w)
		}
	}
}

// standing returns the limit of a rule, and what is left of it, by RateLimit-Policy and
// RateLimit. Where a proxy has removed these, the X-RateLimit headers stand for every
// rule: they tell of the tightest.
func standing(header http.Header, rule string) (limit, left int64, ok bool) {
	limit, errLimit := parameter(header, "RateLimit-Policy", `"`+rule+`";q=`)
	left, errLeft := parameter(header, "RateLimit", `"`+rule+`";r=`)
	if errLimit != nil || errLeft != nil {
		limit, errLimit = parameter(header, "X-RateLimit-Limit", "")
		left, errLeft = parameter(header, "X-RateLimit-Remaining", "")
	}
	return limit, left, errLimit == nil && errLeft == nil && limit > 0
}

// parameter returns the number in a header that follows a prefix.
func parameter(header http.Header, name, prefix string) (n int64, err error) {
	_, text, _ := strings.Cut(header.Get(name), prefix)
	_, err = fmt.Sscan(text, &n)
	return n, err
}
