package ratelimit_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

func TestLimitsCheck(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limits  ratelimit.Limits
		routes  int
		warning string // part of the warning; "" for none
		err     string // part of the error; "" for none
	}{
		{"nothing is set", ratelimit.Limits{}, 4, "", ""},
		{"the largest sum that is safe", ratelimit.Limits{Requests: 200}, 4, "", ""},
		{"a sum that is too large", ratelimit.Limits{Requests: 201}, 4, "804 writes", ""},
		{"a large limit without export routes", ratelimit.Limits{Imports: 900, Requests: 900}, 0, "", ""},
		{"any number of records", ratelimit.Limits{Records: 1 << 40}, 4, "", ""},
		{"too many imports", ratelimit.Limits{Imports: 901}, 4, "", "imports, 901, is above 900"},
		{"too many requests", ratelimit.Limits{Requests: 901}, 4, "", "requests, 901, is above 900"},
		{"a negative limit of records", ratelimit.Limits{Records: -1}, 4, "", "records, -1, is negative"},
		{"a negative limit of imports", ratelimit.Limits{Imports: -1}, 4, "", "imports, -1, is negative"},
		{"a negative limit of requests", ratelimit.Limits{Requests: -1}, 4, "", "requests, -1, is negative"},
		{"an action", ratelimit.Limits{Action: ratelimit.ActionObserve}, 4, "", ""},
		{"an unknown action", ratelimit.Limits{Action: "allow"}, 4, "", `"allow" is not limit, block, unlimited or observe`},
	} {
		warning, err := tt.limits.Check(tt.routes)
		if (warning == "") != (tt.warning == "") || !strings.Contains(warning, tt.warning) {
			t.Errorf("%s: warning %q, want %q", tt.name, warning, tt.warning)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if _, newErr := ratelimit.New(memory.NewCounters(), ratelimit.Config{Limits: tt.limits}); (newErr == nil) != (err == nil) {
			t.Errorf("%s: New returned error %v", tt.name, newErr)
		}
	}
}

// limited returns a limiter whose limits are all 5.
func limited(t *testing.T, store ratelimit.Store, action ratelimit.Action) limiter {
	t.Helper()
	l, _ := newLimiter(t, store, ratelimit.Limits{Records: 5, Imports: 5, Requests: 5, Action: action})
	return l
}

// export calls l as a server does: first Precheck with the number of records asked for, then, if
// the export was not refused, Charge with the number found.
func export(t *testing.T, l limiter, asked, found int64) (d ratelimit.Decision, read bool, err error) {
	t.Helper()
	if d, refused := l.Precheck(list("list-entity", asked)); refused {
		return d, d.Allowed, nil // under ActionObserve, a server still reads
	}
	d, err = l.Charge(t.Context(), list("list-entity", found))
	return d, true, err
}

type outcome struct{ passed, refused, blocked, observed, failed int }

// exhaust sends n exports of one record through l, alternating with n exports of no records that
// skip Precheck.
func exhaust(t *testing.T, l limiter, n int) (got outcome) {
	t.Helper()
	for i := range 2 * n {
		var d ratelimit.Decision
		var read bool
		var err error
		if i%2 == 0 {
			d, read, err = export(t, l, 1, 1)
		} else {
			d, err = l.Charge(t.Context(), list("list-entity", 0))
		}
		switch {
		case err != nil:
			got.failed++
		case d.Allowed:
			got.passed++
		case d.Blocked:
			got.blocked++
		default:
			got.refused++
		}
		if d.Blocked && read {
			t.Error("a blocked export was read")
		}
		if d.Observed {
			got.observed++
			if !slices.Contains(d.Violated(), "requests") {
				t.Errorf("an observed request violates %v", d.Violated())
			}
		}
	}
	return got
}

func TestActions(t *testing.T) {
	for _, tt := range []struct {
		action ratelimit.Action
		want   outcome
		calls  int64
		down   outcome // expected while the store fails
	}{
		{ratelimit.ActionLimit, outcome{passed: 5, refused: 11}, 5, outcome{failed: 16}},
		{ratelimit.ActionBlock, outcome{blocked: 16}, 0, outcome{blocked: 16}},
		{ratelimit.ActionUnlimited, outcome{passed: 16}, 16, outcome{passed: 16}},
		{ratelimit.ActionObserve, outcome{passed: 16, observed: 11}, 5, outcome{passed: 16}},
	} {
		t.Run(string(tt.action), func(t *testing.T) {
			store := &counting{Store: memory.NewCounters()}
			l := limited(t, store, tt.action)
			if got := exhaust(t, l, 8); got != tt.want || store.calls.Load() != tt.calls {
				t.Errorf("%+v after %d calls, want %+v", got, store.calls.Load(), tt)
			}

			store.down.Store(true)
			l = limited(t, store, tt.action)
			if got := exhaust(t, l, 8); got != tt.down {
				t.Errorf("while the store fails: %+v, want %+v", got, tt.down)
			}
		})
	}
}

func TestABlockedRequestHasHeaders(t *testing.T) {
	l := limited(t, memory.NewCounters(), ratelimit.ActionBlock)
	d, err := l.Charge(t.Context(), list("list-entity", 1))
	if err != nil || d.Allowed || !d.Blocked || !d.Local || d.Violated() != nil {
		t.Fatalf("%+v, error %v", d, err)
	}
	h := make(http.Header)
	d.SetHeaders(h)
	for name, want := range map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000001",
		"RateLimit-Policy": `"records";q=5;w=1, "requests";q=5;w=1`, "RateLimit": `"records";r=0;t=1, "requests";r=0;t=1`} {
		if got := h[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// If the store fails, requests from unlimited and observed addresses pass without being counted.
func TestDegradedIsTheErrorOfTheStore(t *testing.T) {
	for _, action := range []ratelimit.Action{ratelimit.ActionUnlimited, ratelimit.ActionObserve} {
		l := limited(t, brokenStore{}, action)
		d, err := l.Charge(t.Context(), list("list-entity", 2))
		if err != nil || !d.Allowed || !errors.Is(d.Degraded, errUnreachable) || d.Remaining() != 3 {
			t.Errorf("%s: %+v, error %v", action, d, err)
		}
	}
}
