package client

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	// assumedLimit is a rule's limit until a response has told it.
	assumedLimit = 200

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
// One request of a class goes at a time until a response has told its limits.
type pacer struct {
	base time.Time // of the client's clock, which no setting of the time moves

	mu      sync.Mutex
	clock   clock
	rules   map[string]*rule
	lines   map[string]chan struct{} // whoever is in one is next
	changed chan struct{}            // closed when a response has come
}

// charge is what a request costs of a rule.
type charge struct {
	rule string // the service's name: records, imports, requests
	key  string // of the client's state: requests are counted by route
	cost int64
}

// rule is the state of one rule.
type rule struct {
	limit    int64           // 0 until the first response, or none, has come
	inFlight int64           // cost of the requests that have no response yet
	used     map[int64]int64 // by window, as the responses say
	reserve  int64           // places left to others at the end of a window
	refused  int64           // window of the latest refusal, or of the latest place given back
	until    time.Duration   // nothing may go before this time
}

// ticket is a request that was let through.
type ticket struct {
	charges []charge
	sent    time.Duration
}

func newPacer() *pacer {
	return &pacer{base: time.Now(), rules: make(map[string]*rule), lines: make(map[string]chan struct{}), changed: make(chan struct{})}
}

func (p *pacer) now() time.Duration { return time.Since(p.base) }

// enter waits until a request may be sent. It fails when ctx is done, or at once
// when the service has asked to wait for longer than most. leave must follow.
// Requests whose last charge is of the same rule wait in line.
func (p *pacer) enter(ctx context.Context, charges []charge, most time.Duration) (*ticket, *Error) {
	line := p.line(charges[len(charges)-1].key)
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return nil, &Error{Err: ctx.Err()}
	}
	for {
		t, wait, changed := p.admit(charges)
		if t != nil {
			return t, nil
		}
		if wait > most {
			return nil, &Error{Status: http.StatusTooManyRequests, RetryAfter: wait, retryable: true,
				Detail: fmt.Sprintf("an earlier response asked to wait, for %s more", wait.Round(time.Second))}
		}
		var timeout <-chan time.Time
		if wait > 0 {
			timeout = time.After(wait)
		}
		select {
		case <-timeout:
		case <-changed:
		case <-ctx.Done():
			return nil, &Error{Err: ctx.Err()}
		}
	}
}

func (p *pacer) line(key string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, ok := p.lines[key]
	if !ok {
		line = make(chan struct{}, 1)
		p.lines[key] = line
	}
	return line
}

// admit counts a request as sent if it fits. Otherwise it says when that may
// change: after wait, if that is not 0, or when changed is closed.
func (p *pacer) admit(charges []charge) (t *ticket, wait time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, c := range charges {
		r := p.rule(c.key)
		if ok, at := r.fits(c.cost, now, p.clock); !ok {
			wait = max(wait, at-now)
			changed = p.changed
		}
	}
	if changed != nil {
		return nil, wait, changed
	}
	for _, c := range charges {
		p.rules[c.key].inFlight += c.cost
	}
	return &ticket{charges: charges, sent: now}, 0, nil
}

func (p *pacer) rule(key string) *rule {
	r, ok := p.rules[key]
	if !ok {
		r = &rule{used: make(map[int64]int64)}
		p.rules[key] = r
	}
	return r
}

// fits reports whether a cost has room, or else at which time it may have,
// which is not after now where only a response can tell.
func (r *rule) fits(cost int64, now time.Duration, c clock) (ok bool, at time.Duration) {
	switch {
	case now < r.until:
		return false, r.until
	case r.limit == 0:
		return r.inFlight == 0, now
	}
	room := r.limit - r.reserve
	// What never fits goes alone; the service will say.
	if cost > room {
		cost = room
	}
	if r.inFlight+cost > room {
		return false, now
	}
	first := c.window(now)
	for window, used := range r.used {
		if window >= first && used+r.inFlight+cost > room {
			ok, at = false, max(at, c.begin(window+1))
		}
	}
	return at == 0, at
}

// leave takes note of the response to a request; header is nil if there was none.
func (p *pacer) leave(t *ticket, status int, header http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	reset, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	told := err == nil && 0 < reset && reset < maxReset
	if told && p.clock.observe(t.sent, now, reset) {
		for _, r := range p.rules {
			clear(r.used)
		}
	}
	var until time.Duration
	// Retry-After is in whole seconds, rounded up: a reset within the last of them is
	// the exact time, and note has seen to it.
	if wait := retryAfter(header, time.Now()); status == http.StatusTooManyRequests && !(told && now+wait-time.Second <= p.clock.begin(reset)) {
		until = now + wait
	}
	limits, remaining := policies(header)
	for _, c := range t.charges {
		r := p.rules[c.key]
		r.inFlight -= c.cost
		r.until = max(r.until, until)
		if r.limit == 0 {
			r.limit = assumedLimit
		}
		if told {
			r.note(c, status == http.StatusTooManyRequests, reset-1, limits, remaining)
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// note takes over what a response says of a window.
func (r *rule) note(c charge, refused bool, window int64, limits, remaining map[string]int64) {
	limit, knowsLimit := limits[c.rule]
	left, knowsLeft := remaining[c.rule]
	if !knowsLimit || !knowsLeft || limit < 1 {
		return
	}
	r.limit = limit
	used := limit - left
	if refused && left < c.cost {
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

// policies returns the limit of each rule, and what is left of it, by RateLimit-Policy
// and RateLimit. Where a proxy has removed these, the X-RateLimit headers stand for
// every rule: they tell of the tightest.
func policies(header http.Header) (limits, remaining map[string]int64) {
	limits, remaining = parameters(limitParameter, header.Get("RateLimit-Policy")), parameters(remainingParameter, header.Get("RateLimit"))
	if len(limits) > 0 && len(remaining) > 0 {
		return limits, remaining
	}
	limit, errLimit := strconv.ParseInt(header.Get("X-RateLimit-Limit"), 10, 64)
	left, errLeft := strconv.ParseInt(header.Get("X-RateLimit-Remaining"), 10, 64)
	if errLimit != nil || errLeft != nil {
		return nil, nil
	}
	limits, remaining = make(map[string]int64), make(map[string]int64)
	for _, rule := range []string{"records", "imports", "requests"} {
		limits[rule], remaining[rule] = limit, left
	}
	return limits, remaining
}

// Parameters of an item of a list such as "records";r=150;t=1, "requests";r=199;t=1.
var (
	limitParameter     = regexp.MustCompile(`"(\w+)"[^,]*;\s*q=(\d+)`)
	remainingParameter = regexp.MustCompile(`"(\w+)"[^,]*;\s*r=(\d+)`)
)

// parameters returns the numbers of a parameter by item. What it cannot read it
// leaves out.
func parameters(parameter *regexp.Regexp, list string) map[string]int64 {
	found := make(map[string]int64)
	for _, item := range parameter.FindAllStringSubmatch(list, -1) {
		if n, err := strconv.ParseInt(item[2], 10, 64); err == nil {
			found[item[1]] = n
		}
	}
	return found
}
