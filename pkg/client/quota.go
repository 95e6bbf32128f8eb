package client

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// quotaMemory is how long the pacer relies on what a response said of a quota. The operator may
// raise it, which takes effect within that time.
const quotaMemory = time.Minute

// maxRest is above the seconds of a month.
const maxRest = 1 << 22

// quota is a limit of an API key by UTC day or calendar month, as a response showed it.
type quota struct {
	policy string // such as records-month
	left   int64
	ends   time.Time
	rest   time.Duration // until then, from the response, rounded up to a second
	until  time.Duration // when the pacer forgets it
}

// quotaIn returns the quota that the X-RateLimit headers are about, which has less left than the
// limits per second. ok is false if they are about one of those.
func quotaIn(header http.Header) (q quota, ok bool) {
	q.left = math.MaxInt64
	for item := range strings.SplitSeq(header.Get("RateLimit"), ",") {
		policy, rest, _ := strings.Cut(strings.TrimSpace(item), `";r=`)
		var left, seconds int64
		if _, err := fmt.Sscanf(rest, "%d;t=%d", &left, &seconds); err != nil || left > q.left {
			continue
		}
		q.policy, q.left, q.rest = strings.TrimPrefix(policy, `"`), left, time.Duration(min(seconds, maxRest))*time.Second
		ok = strings.HasSuffix(policy, "-day") || strings.HasSuffix(policy, "-month")
	}
	ends, err := parameter(header, "X-RateLimit-Reset", "")
	q.ends = time.Unix(ends, 0).UTC()
	return q, ok && err == nil
}

// noteQuota keeps q if it is a quota of the rule with that name.
func (r *rule) noteQuota(name string, q quota, now time.Duration) {
	if strings.HasPrefix(q.policy, name+"-") {
		q.until = now + min(q.rest-time.Second, quotaMemory)
		r.quota = q
	}
}

// overQuota returns the failure of a request that costs more than a quota has left, and otherwise
// nil.
func (p *pacer) overQuota(costs []cost) *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range costs {
		q := p.rule(c).quota
		if p.now() >= q.until || q.left > 0 && (c.step || c.amount <= q.left) {
			continue
		}
		detail := fmt.Sprintf("an earlier response said that the quota %s has %d left until %s", q.policy, q.left, q.ends.Format(time.RFC3339))
		return &Error{Status: http.StatusTooManyRequests, Detail: detail, Quota: q.policy, QuotaEnds: q.ends, retryable: true}
	}
	return nil
}
