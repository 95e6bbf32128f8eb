package ratelimit_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

const quotaKey = "key:7m3kq2xw9abc"

// quotaNoon is in a month of 30 days, two days before its end.
var quotaNoon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// quotaLimiter charges requests of a key with quotas.
type quotaLimiter struct {
	*ratelimit.Limiter
	t      *testing.T
	clock  *clock
	store  *counting
	limits ratelimit.Limits
}

func newQuotaLimiter(t *testing.T, q ratelimit.Quotas) *quotaLimiter {
	t.Helper()
	c, store := &clock{quotaNoon}, &counting{Store: memory.NewCounters()}
	l := open(t, store, ratelimit.Config{Now: c.now})
	return &quotaLimiter{Limiter: l.Limiter, t: t, clock: c, store: store, limits: ratelimit.Limits{Records: 200, Imports: 200, Requests: 200, Quotas: q, Action: ratelimit.ActionLimit}}
}

func (l *quotaLimiter) of(r ratelimit.Request) ratelimit.Request {
	r.Subject = ratelimit.Subject{Identity: quotaKey, Limits: l.limits}
	return r
}

func (l *quotaLimiter) want(what string, r ratelimit.Request, allowed, called bool) ratelimit.Decision {
	l.t.Helper()
	before := l.store.calls.Load()
	d, err := l.Charge(l.t.Context(), l.of(r))
	if calls := l.store.calls.Load() - before; err != nil || d.Allowed != allowed || (calls > 0) != called {
		l.t.Errorf("%s: allowed %v after %d calls, %v", what, d.Allowed, calls, err)
	}
	return d
}

func headersOf(d ratelimit.Decision) http.Header {
	h := make(http.Header)
	d.SetHeaders(h)
	return h
}

func TestQuotasInHeaders(t *testing.T) {
	const second, day, month = "1795953601", "1795996800", "1796083200" // of quotaNoon
	quotas := ratelimit.Quotas{RecordsPerDay: 150, RecordsPerMonth: 1000, ImportsPerMonth: 2}
	const exports = `"records";q=200;w=1, "requests";q=200;w=1, "records-day";q=150;w=86400, "records-month";q=1000;w=2592000`
	const imports = `"imports";q=200;w=1, "requests";q=200;w=1, "imports-month";q=2;w=2592000`
	for _, tt := range []struct {
		name                    string
		requests                []ratelimit.Request
		limit, remaining, reset string
		policies, states        string
		violated                []string
		retryAfter              int
	}{
		{"an export", repeat(1, list("list-event", 30)), "150", "120", day, exports, `"records";r=170;t=1, "requests";r=199;t=1, "records-day";r=120;t=43200, "records-month";r=970;t=129600`, nil, 1},
		{"a quota is not the tightest", repeat(1, list("list-event", 0)), "150", "150", day, exports, `"records";r=200;t=1, "requests";r=199;t=1, "records-day";r=150;t=43200, "records-month";r=1000;t=129600`, nil, 1},
		{"an export that does not fit", []ratelimit.Request{list("list-event", 30), list("list-event", 121)}, "150", "0", day, exports, `"records";r=170;t=1, "requests";r=199;t=1, "records-day";r=120;t=43200, "records-month";r=970;t=129600`, []string{"records-day"}, 43200},
		{"an export above the quota", repeat(1, list("list-event", 151)), "150", "0", day, exports, `"records";r=200;t=1, "requests";r=200;t=1, "records-day";r=150;t=43200, "records-month";r=1000;t=129600`, []string{"records-day"}, 43200},
		{"a refusal by the second shows the second", []ratelimit.Request{list("list-event", 100), list("get-event", 20), list("list-event", 81)}, "150", "0", day, exports, `"records";r=80;t=1, "requests";r=199;t=1, "records-day";r=30;t=43200, "records-month";r=880;t=129600`, []string{"records", "records-day"}, 43200},
		{"a quota that is used up", repeat(3, create("create-event")), "2", "0", month, imports, `"imports";r=198;t=1, "requests";r=198;t=1, "imports-month";r=0;t=129600`, []string{"imports-month"}, 86400},
		{"a general route", repeat(1, general("usage")), "200", "199", second, `"requests";q=200;w=1`, `"requests";r=199;t=1`, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newQuotaLimiter(t, quotas)
			var d ratelimit.Decision
			for _, r := range tt.requests {
				var err error
				if d, err = l.Charge(t.Context(), l.of(r)); err != nil {
					t.Fatal(err)
				}
			}
			h := headersOf(d)
			got := []string{header(h, "X-RateLimit-Limit")[0], header(h, "X-RateLimit-Remaining")[0], header(h, "X-RateLimit-Reset")[0], header(h, "RateLimit-Policy")[0], header(h, "RateLimit")[0]}
			if want := []string{tt.limit, tt.remaining, tt.reset, tt.policies, tt.states}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if !slices.Equal(d.Violated(), tt.violated) || d.RetryAfter() != tt.retryAfter {
				t.Errorf("violated %q, retry after %d", d.Violated(), d.RetryAfter())
			}
		})
	}
}

func TestAKnownQuotaIsRefusedWithoutACallUntilItEnds(t *testing.T) {
	l := newQuotaLimiter(t, ratelimit.Quotas{ImportsPerDay: 3, ImportsPerMonth: 8})
	fill := func(day string, n int) {
		t.Helper()
		for range n {
			l.want(day, create("create-event"), true, true)
		}
		l.want(day+", used up", create("create-entity"), false, false)
		l.clock.t = l.clock.t.Add(time.Second)
		l.want(day+", a second later", create("create-event"), false, false)
		l.want(day+", another route", list("list-event", 7), true, true)
	}
	fill("the first day", 3)
	l.clock.t = time.Date(2026, 11, 30, 0, 0, 0, -1, time.UTC)
	l.want("the last moment of the day", create("create-event"), false, false)
	l.clock.t = l.clock.t.Add(time.Nanosecond)
	fill("the second day", 3)
	l.clock.t = quotaNoon
	l.want("the clock is set back", create("create-event"), false, true)
	l.want("the clock is set back", create("create-event"), false, false)
	l.clock.t = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for n := range 2 {
		fill("December", 3)
		l.clock.t = time.Date(2026, 12, 2+n, 0, 0, 0, 0, time.UTC)
	}
	for range 2 {
		l.want("the month has room", create("create-event"), true, true)
	}
	d := l.want("the month has none", create("create-event"), false, false)
	if q, ok := d.Quota(); !ok || q.Rule.Name != ratelimit.RuleImportsMonth || q.Left() != 0 || d.End(q) != 1_798_761_600 || d.RetryAfter() != 86_400 {
		t.Errorf("%+v", d)
	}
}

// A limit that rows have changed is compared with what is known.
func TestAQuotaChanges(t *testing.T) {
	l := newQuotaLimiter(t, ratelimit.Quotas{ImportsPerMonth: 3})
	for range 3 {
		l.want("room", create("create-event"), true, true)
	}
	l.want("used up", create("create-event"), false, false)
	l.limits.ImportsPerMonth = 5
	l.want("raised", create("create-event"), true, true)
	l.limits.ImportsPerMonth = 4
	l.want("lowered", create("create-event"), false, false)
	l.limits.ImportsPerMonth = 2
	l.want("lowered below what is used", create("create-event"), false, false)
	l.limits.ImportsPerMonth = 0
	l.want("without a quota", create("create-event"), true, true)
	l.limits.ImportsPerMonth = 5
	l.want("what was used without a quota counts", create("create-event"), false, true)
	l.limits.ImportsPerMonth = 6
	l.want("one more", create("create-event"), true, true)
}

// After an export was read and refused, exports that ask for more than is left are refused unread.
func TestAnExportTellsWhatIsLeftOfAQuota(t *testing.T) {
	l := newQuotaLimiter(t, ratelimit.Quotas{RecordsPerMonth: 100})
	unread := func(records int64, refused bool) {
		t.Helper()
		if d, got := l.Precheck(l.of(list("list-event", records))); got != refused || refused && (d.Allowed || !d.Local) {
			t.Errorf("%d records: refused %v, %+v", records, got, d)
		}
	}
	l.want("80 records", list("list-event", 80), true, true)
	unread(21, false) // it may find fewer
	l.clock.t = l.clock.t.Add(time.Second)
	d := l.want("21 records", list("list-event", 21), false, true)
	if q, ok := d.Quota(); !ok || q.Left() != 20 {
		t.Errorf("%+v", d)
	}
	l.clock.t = l.clock.t.Add(time.Hour)
	unread(21, true)
	unread(20, false)
	l.want("12 records", list("list-event", 12), true, true)
	unread(9, true)
	unread(8, false)
	l.limits.RecordsPerMonth = 101
	unread(9, false)
	l.clock.t = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	unread(101, false)
}

func TestActionsAndQuotas(t *testing.T) {
	used := func(l *quotaLimiter) int64 {
		u, err := ratelimit.Usage(t.Context(), l.store.Store.(*memory.Counters), quotaKey, []ratelimit.Route{{Name: "create-event", Class: ratelimit.Import}}, ratelimit.WindowAt(l.clock.t))
		if err != nil {
			t.Fatal(err)
		}
		return u.Month.Imports
	}
	for _, tt := range []struct {
		action         ratelimit.Action
		allowed, calls bool
		used           int64
	}{
		{ratelimit.ActionLimit, false, false, 2}, {ratelimit.ActionObserve, true, false, 2}, {ratelimit.ActionUnlimited, true, true, 4},
	} {
		l := newQuotaLimiter(t, ratelimit.Quotas{ImportsPerMonth: 2})
		l.limits.Action = tt.action
		for range 2 {
			l.want("room", create("create-event"), true, true)
		}
		for range 2 {
			l.clock.t = l.clock.t.Add(time.Second)
			d := l.want(string(tt.action), create("create-event"), tt.allowed, tt.calls)
			if _, over := d.Quota(); over != (tt.action != ratelimit.ActionUnlimited) || d.Observed != (tt.action == ratelimit.ActionObserve) {
				t.Errorf("%s: %+v", tt.action, d)
			}
		}
		if n := used(l); n != tt.used {
			t.Errorf("%s: %d are used, want %d", tt.action, n, tt.used)
		}
	}
}

// No header says that a quota is used up only because its counter is unknown.
func TestNothingIsSaidOfAQuotaWhileTheStoreFails(t *testing.T) {
	const policies = `"imports";q=200;w=1, "requests";q=200;w=1, "imports-month";q=1;w=2592000`
	for name, tt := range map[string]struct {
		fallback ratelimit.Store
		action   ratelimit.Action
		allowed  bool
		states   string
	}{
		"closed":    {nil, ratelimit.ActionLimit, false, `"imports";r=0;t=1, "requests";r=0;t=1`},
		"open":      {memory.NewCounters(), ratelimit.ActionLimit, true, `"imports";r=198;t=1, "requests";r=198;t=1`},
		"unlimited": {nil, ratelimit.ActionUnlimited, true, `"imports";r=199;t=1, "requests";r=199;t=1`},
		"block":     {nil, ratelimit.ActionBlock, false, `"imports";r=0;t=1, "requests";r=0;t=1`},
	} {
		l := newQuotaLimiter(t, ratelimit.Quotas{ImportsPerMonth: 1})
		l.Limiter = open(t, brokenStore{}, ratelimit.Config{Fallback: tt.fallback, Now: l.clock.now}).Limiter
		l.limits.Action = tt.action
		var d ratelimit.Decision
		for range 2 {
			d, _ = l.Charge(t.Context(), l.of(create("create-event")))
		}
		h := headersOf(d)
		if d.Allowed != tt.allowed || header(h, "RateLimit-Policy")[0] != policies || header(h, "RateLimit")[0] != tt.states || header(h, "X-RateLimit-Limit")[0] != "200" || header(h, "X-RateLimit-Reset")[0] != "1795953601" {
			t.Errorf("%s: allowed %v, %q", name, d.Allowed, h)
		}
	}
}

func TestQuotasOfRows(t *testing.T) {
	key := ratelimit.Row{KeyID: "7m3kq2xw9abc", Action: "limit", Quotas: ratelimit.Quotas{RecordsPerDay: 5}}
	plan := ratelimit.Row{Plan: "pro", Action: "limit", Quotas: ratelimit.Quotas{RecordsPerDay: 9, ImportsPerMonth: 7}, ExportJobs: true}
	rows, err := ratelimit.NewRows([]ratelimit.Row{key, plan})
	if err != nil {
		t.Fatal(err)
	}
	got := rows.Find(ratelimit.Caller{KeyID: key.KeyID, Plan: plan.Plan}, quotaNoon).Limits()
	if want := (ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerDay: 5, ImportsPerMonth: 7}, ExportJobs: true, Action: "limit"}); got != want {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct {
		limits ratelimit.Limits
		may    bool
	}{
		{ratelimit.Limits{}, true},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{ImportsPerDay: 1}}, true},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerDay: 1}, Action: "limit"}, false},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerMonth: 1}, Action: "limit"}, false},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerMonth: 1}, Action: "limit", ExportJobs: true}, true},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerMonth: 1}, Action: "unlimited"}, true},
		{ratelimit.Limits{Quotas: ratelimit.Quotas{RecordsPerMonth: 1}, Action: "observe"}, true},
	} {
		if tt.limits.MayCreateExportJobs() != tt.may {
			t.Errorf("%+v: want %v", tt.limits, tt.may)
		}
	}
}
