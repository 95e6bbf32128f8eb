package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

var start = time.Unix(1_800_000_000, 0)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// limiter gives the default limits to the subjects of requests.
type limiter struct{ *ratelimit.Limiter }

func (l limiter) limited(r ratelimit.Request) ratelimit.Request {
	r.Subject.Limits = l.Subject(nil, ratelimit.Caller{}).Limits
	return r
}

func (l limiter) Charge(ctx context.Context, r ratelimit.Request) (ratelimit.Decision, error) {
	return l.Limiter.Charge(ctx, l.limited(r))
}

func (l limiter) Precheck(r ratelimit.Request) (ratelimit.Decision, bool) {
	return l.Limiter.Precheck(l.limited(r))
}

func open(t *testing.T, store ratelimit.Store, cfg ratelimit.Config) limiter {
	t.Helper()
	l, err := ratelimit.New(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return limiter{l}
}

func newLimiter(t *testing.T, store ratelimit.Store, limits ratelimit.Limits) (limiter, *clock) {
	t.Helper()
	c := &clock{time.Unix(1_800_000_000, 0)}
	return open(t, store, ratelimit.Config{Limits: limits, Now: c.now}), c
}

func list(route string, records int64) ratelimit.Request {
	return ratelimit.Request{Subject: ratelimit.Subject{Identity: "192.0.2.1"}, Route: ratelimit.Route{Name: route, Class: ratelimit.Export}, Records: records}
}

func create(route string) ratelimit.Request {
	return ratelimit.Request{Subject: ratelimit.Subject{Identity: "192.0.2.1"}, Route: ratelimit.Route{Name: route, Class: ratelimit.Import}}
}

func general(route string) ratelimit.Request {
	return ratelimit.Request{Subject: ratelimit.Subject{Identity: "192.0.2.1"}, Route: ratelimit.Route{Name: route, Class: ratelimit.General}}
}

func repeat(n int, r ratelimit.Request) []ratelimit.Request {
	return slices.Repeat([]ratelimit.Request{r}, n)
}

func TestHeaders(t *testing.T) {
	tests := []struct {
		name     string
		limits   ratelimit.Limits
		requests []ratelimit.Request // only the last decision is checked
		want     map[string]string
	}{
		{"an export", ratelimit.Limits{}, repeat(1, list("list-entity", 50)), map[string]string{
			"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "150", "X-RateLimit-Reset": "1800000001",
			"RateLimit-Policy": `"records";q=200;w=1, "requests";q=200;w=1`,
			"RateLimit":        `"records";r=150;t=1, "requests";r=199;t=1`,
		}},
		{"an import", ratelimit.Limits{}, append(repeat(9, create("create-entity")), create("create-event")), map[string]string{
			"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "190", "X-RateLimit-Reset": "1800000001",
			"RateLimit-Policy": `"imports";q=200;w=1, "requests";q=200;w=1`,
			"RateLimit":        `"imports";r=190;t=1, "requests";r=199;t=1`,
		}},
		{"a general route", ratelimit.Limits{}, repeat(1, general("usage")), map[string]string{
			"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "199", "X-RateLimit-Reset": "1800000001",
			"RateLimit-Policy": `"requests";q=200;w=1`,
			"RateLimit":        `"requests";r=199;t=1`,
		}},
		{"X-RateLimit-Limit is that of the rule with the smallest remainder", ratelimit.Limits{Imports: 900, Requests: 10}, repeat(1, create("create-event")), map[string]string{
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9",
			"RateLimit-Policy": `"imports";q=900;w=1, "requests";q=10;w=1`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := newLimiter(t, memory.NewCounters(), tt.limits)
			var d ratelimit.Decision
			for _, r := range tt.requests {
				d, _ = l.Charge(t.Context(), r)
			}
			h := http.Header{}
			d.SetHeaders(h)
			for name, want := range tt.want {
				if got := h[name]; len(got) != 1 || got[0] != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if len(h) != 5 {
				t.Errorf("headers %v", h)
			}
		})
	}
}

type brokenStore struct{}

var errUnreachable = errors.New("unreachable")

func (brokenStore) Charge(_ context.Context, _ ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	return ratelimit.Result{Admitted: true, Used: make([]int64, len(costs))}, errUnreachable // the Limiter must ignore the result
}

func TestTheWindowIsTheSecondOfTheSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, memory.NewCounters(), ratelimit.Config{})
		for range 10 {
			for _, wait := range []time.Duration{0, time.Millisecond, time.Until(time.Now().Truncate(time.Second).Add(time.Second - 1)), 1} {
				time.Sleep(wait)
				d, err := l.Charge(t.Context(), general("usage"))
				if want := ratelimit.WindowAt(time.Now()); err != nil || d.Window != want {
					t.Errorf("at %v: window %d, error %v; want %d", time.Now(), d.Window, err, want)
				}
			}
		}
	})
}

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct {
		in     string
		prefix int
		want   string // "" for an error
	}{
		{"192.0.2.1", 64, "192.0.2.1"},
		{"::ffff:192.0.2.1", 64, "192.0.2.1"},
		{"::ffff:c000:201", 64, "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:ffff::1", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:3::1", 64, "2001:db8:1:3::/64"},
		{"2001:DB8:1:2::1", 128, "2001:db8:1:2::1/128"},
		{"2001:db8:1:2::1", 56, "2001:db8:1::/56"},
		{"fe80::1%eth0", 64, "fe80::/64"},
		{"", 64, ""},
		{"192.0.2.1:80", 64, ""},
		{"192.0.2.256", 64, ""},
		{"192.0.2.01", 64, ""},
		{"192.0.2.1, 192.0.2.2", 64, ""},
		{"localhost", 64, ""},
		{"2001:db8::1", 129, ""},
		{"2001:db8::1", 0, ""},
	} {
		address, err := ratelimit.ParseAddress(tt.in, tt.prefix)
		got := ""
		if err == nil {
			got = ratelimit.AddressIdentity(address)
		}
		if got != tt.want || (err == nil) != address.IsValid() {
			t.Errorf("%q/%d: %q, %v; want %q", tt.in, tt.prefix, got, err, tt.want)
		}
	}
}
