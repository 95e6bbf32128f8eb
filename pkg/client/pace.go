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
	// cleanWindows is how many windows must pass without a refusal before the reserve of a rule
	// shrinks by one.
	cleanWindows = 10

	// maxReset is greater than any valid X-RateLimit-Reset. A larger value is not a Unix time in
	// seconds.
	maxReset = 1 << 33

	// spreadSteps is the number of steps in a window if the share is below 1.
	spreadSteps = 4
)

// pacer delays requests until the limits have room for them.
//
// The service counts requests in windows, which are the seconds of its own clock. Every
// response shows the end of its window (X-RateLimit-Reset) and what is left of each rule in
// that window (RateLimit). The client knows the service's clock only approximately (see
// clock). A request that is sent now may therefore be counted in the latest window that has
// certainly begun, or in a later one, and so may each request in flight. The pacer sends a
// request only if it fits into each of these windows along with all requests in flight. When a
// window is full, the pacer waits until the next one has certainly begun.
//
// The remainder also reflects the requests of other clients at the same address. When the share
// of a limit is used, no matter by whom, the pacer waits for the next window. It spreads the
// share over the window in steps, so that other clients always find room; a share of 1 is not
// spread. A list never requests more records than the share has left. The pacer cannot see the
// requests that other clients have in flight, so these can cause a refusal. Each refusal adds one
// to a reserve, a part of the limit that stays unused. Without refusals, the reserve shrinks.
//
// Until a response has shown a rule's limit, requests under that rule are sent one at a time.
//
// The pacer does not pace by quotas. But a list never requests more records than a quota has left,
// and a request that costs more than that is not sent.
type pacer struct {
	base  time.Time // origin of the client's time, which is monotonic
	share float64   // share of each limit that may be used
	steps int64     // number of steps in a window; each has an equal part of the share

	mu      sync.Mutex
	gap     time.Duration // minimum time between two requests
	next    time.Duration // earliest time of the next request
	clock   clock
	rules   map[string]*rule // by cost.key
	changed chan struct{}    // closed when the next response is received
}

// cost is what a request costs under one rule.
type cost struct {
	rule   string // its name: records, imports or requests
	key    string // key in pacer.rules; the rule "requests" has one for each route
	amount int64  // maximum; the pacer lowers it to what is left, but not below 1
	step   bool   // if true, amount is at most what one step adds, or defaultPage while the limit is unknown
}

type rule struct {
	line     chan struct{}   // lock held by the request that will be sent next; other requests wait for the lock
	limit    int64           // per window; 0 until a response has shown it
	inFlight int64           // total cost of the requests that have no response yet
	used     map[int64]int64 // how much of the limit was used in each window, as shown in responses
	reserve  int64           // part of the limit that stays unused after refusals
	refused  int64           // window in which the reserve last changed
	until    time.Duration   // earliest time of the next request
	quota    quota           // the latest that a response has shown
}

// newPacer takes the rate in requests per second; 0 means no limit.
func newPacer(share float64, rate int) *pacer {
	p := &pacer{base: time.Now(), share: share, steps: 1, clock: unknown, rules: make(map[string]*rule), changed: make(chan struct{})}
	if share < 1 {
		p.steps = spreadSteps
	}
	if rate > 0 {
		p.gap = time.Second / time.Duration(rate)
	}
	return p
}

func (p *pacer) now() time.Duration { return time.Since(p.base) }

// rule must be called with p.mu held.
func (p *pacer) rule(c cost) *rule {
	r, ok := p.rules[c.key]
	if !ok {
		r = &rule{line: make(chan struct{}, 1), used: make(map[int64]int64)}
		p.rules[c.key] = r
	}
	return r
}

// enter waits until the request may be sent, and returns that time. The request waits in the queue
// (rule.line) of the last cost's rule. enter lowers the costs to what is left.
// It fails if ctx is done, or immediately if a quota has no room or an earlier response requires a
// wait longer than maxWait. If it succeeds, the caller must call leave.
func (p *pacer) enter(ctx context.Context, costs []cost, maxWait time.Duration) (sent time.Duration, failure *Error) {
	p.mu.Lock()
	line := p.rule(costs[len(costs)-1]).line
	p.mu.Unlock()
	select {
	case line <- struct{}{}:
		defer func() { <-line }()
	case <-ctx.Done():
		return 0, &Error{Err: ctx.Err()}
	}
	for {
		if failure := p.overQuota(costs); failure != nil {
			return 0, failure
		}
		now, retryAt, changed := p.admit(costs)
		if changed == nil {
			return now, nil
		}
		if wait := p.asked(costs) - now; wait > maxWait {
			return 0, &Error{Status: http.StatusTooManyRequests, RetryAfter: wait, retryable: true,
				Detail: fmt.Sprintf("an earlier response asked to wait another %s", wait.Round(time.Second))}
		}
		var timeout <-chan time.Time // nil if only a response can make room
		if wait := retryAt - now; wait > 0 {
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

// If a request fits, admit counts it as sent, sets the amounts of its costs and returns a nil
// channel. If it does not fit, the caller may try again when changed is closed or, if retryAt is
// after now, at retryAt.
func (p *pacer) admit(costs []cost) (now, retryAt time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.now()
	retryAt = p.next
	granted := make([]int64, len(costs))
	for i, c := range costs {
		r := p.rule(c)
		retryAt = max(retryAt, r.until)
		if granted[i] = p.grant(r, c, now); granted[i] == 0 {
			changed = p.changed
		}
	}
	switch {
	case retryAt > now:
		return now, retryAt, p.changed
	case changed != nil:
		return now, p.clock.nextStep(now, p.steps), changed
	}
	p.next = now + p.gap
	for i, c := range costs {
		costs[i].amount = granted[i]
		p.rule(c).inFlight += granted[i]
	}
	return now, retryAt, nil
}

// asked returns the time until which earlier Retry-After headers forbid the request.
func (p *pacer) asked(costs []cost) (until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range costs {
		until = max(until, p.rule(c).until)
	}
	return until
}

// grant returns how much of c may be used now, or 0 if the request must wait. The
// request, like those in flight, may be counted in the latest window that has certainly begun,
// or in the next one.
func (p *pacer) grant(r *rule, c cost, now time.Duration) int64 {
	if c.step && now < r.quota.until {
		c.amount = min(c.amount, r.quota.left)
	}
	if r.limit == 0 {
		if c.step {
			c.amount = min(c.amount, defaultPage)
		}
		if r.inFlight > 0 {
			return 0
		}
		return c.amount
	}
	room := max(int64(p.share*float64(r.limit))-r.reserve, 1)
	if c.step {
		c.amount = min(c.amount, (room+p.steps-1)/p.steps)
	}
	window, step := p.clock.locate(now, p.steps)
	used, next := r.used[window]+r.inFlight, r.used[window+1]+r.inFlight
	if used*p.steps >= room*(step+1) {
		return 0
	}
	return max(min(c.amount, room-max(used, next)), 0)
}

// leave updates the pacer after a request. header is nil if there was no response.
func (p *pacer) leave(costs []cost, sent time.Duration, status int, header http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, refused := p.now(), status == http.StatusTooManyRequests
	reset, err := parameter(header, "X-RateLimit-Reset", "")
	q, ofQuota := quotaIn(header)
	told := err == nil && 0 < reset && reset < maxReset && !ofQuota
	setBack := told && p.clock.observe(sent, now, reset)
	if setBack {
		for _, r := range p.rules {
			clear(r.used)
		}
	}
	wait := retryAfter(header, time.Now())
	for _, c := range costs {
		r := p.rule(c)
		r.inFlight -= c.amount
		if ofQuota {
			r.noteQuota(c.rule, q, now)
			continue
		}
		// A Retry-After of 1 second is rounded up, so the end of the window is more exact.
		if refused && (!told || wait > time.Second) {
			r.until = max(r.until, now+wait)
		}
		if limit, left, ok := standing(header, c.rule); ok && told {
			r.note(c.amount, refused, reset-1, limit, left)
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// note updates r with the limit and the remainder that a response shows for a window.
func (r *rule) note(cost int64, refused bool, window, limit, left int64) {
	r.limit = limit
	used := limit - left
	if refused && left < cost {
		used = limit // after a refusal, treat the window as full
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

// standing reads the limit and remainder of a rule from RateLimit-Policy and RateLimit. If a
// proxy has removed these headers, standing uses the X-RateLimit headers, which are about the
// rule with the smallest remainder.
func standing(header http.Header, rule string) (limit, left int64, ok bool) {
	limit, errLimit := parameter(header, "RateLimit-Policy", `"`+rule+`";q=`)
	left, errLeft := parameter(header, "RateLimit", `"`+rule+`";r=`)
	if errLimit != nil || errLeft != nil {
		limit, errLimit = parameter(header, "X-RateLimit-Limit", "")
		left, errLeft = parameter(header, "X-RateLimit-Remaining", "")
	}
	return limit, left, errLimit == nil && errLeft == nil && limit > 0
}

// parameter returns the number that follows prefix in a header.
func parameter(header http.Header, name, prefix string) (n int64, err error) {
	_, text, _ := strings.Cut(header.Get(name), prefix)
	_, err = fmt.Sscan(text, &n)
	return n, err
}
