package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// rows is a RowStore that fails if it is nil.
type rows []ratelimit.Row

func (r rows) List(context.Context) ([]ratelimit.Row, error) {
	if r == nil {
		return nil, errors.New("the table is down")
	}
	return r, nil
}

func rowsOf(limits ratelimit.Limits, cidrs ...string) rows {
	store := rows{}
	for _, cidr := range cidrs {
		store = append(store, ratelimit.Row{CIDR: netip.MustParsePrefix(cidr), Action: limits.Action, Records: limits.Records, Imports: limits.Imports, Requests: limits.Requests})
	}
	return store
}

func withRows(t *testing.T, counters ratelimit.Store, store ratelimit.RowStore) service {
	t.Helper()
	a := newAPI(t)
	var err error
	if a.rows, err = ratelimit.NewRowCache(store, ratelimit.RowCacheConfig{Now: now}); err != nil {
		t.Fatal(err)
	}
	if a.limiter, err = ratelimit.New(counters, ratelimit.Config{Now: now}); err != nil {
		t.Fatal(err)
	}
	if usage, ok := counters.(ratelimit.UsageStore); ok {
		a.stores.Usage = usage
	}
	a.stores.Minute, _ = counters.(ratelimit.MinuteStore)
	return a
}

const blockedAddress = "192.0.2.1"

// untouched is a counter store that fails the test if it is called.
type untouched struct{ t *testing.T }

func (u untouched) Charge(context.Context, ratelimit.Key, []ratelimit.Cost) (ratelimit.Result, error) {
	u.t.Error("the counters were called")
	return ratelimit.Result{}, errors.New("called")
}

func TestABlockedAddressGets403OnEveryRoute(t *testing.T) {
	a := withRows(t, untouched{t}, rowsOf(ratelimit.Limits{Action: ratelimit.ActionBlock}, "192.0.2.0/24", "2001:db8::/32"))
	for _, r := range httpapi.Routes() {
		for _, address := range []string{blockedAddress, "2001:db8:1:2::3", "::ffff:192.0.2.1"} {
			ev := rowSample(t, r)
			ev.RequestContext.HTTP.SourceIP = address
			resp := a.invoke(t, r.Name, ev)
			if resp.StatusCode != http.StatusForbidden || !strings.Contains(resp.Body, `"code":"address_blocked"`) {
				t.Errorf("%s: %d %s", r.Name, resp.StatusCode, resp.Body)
			}
			if h := resp.Headers; h["X-RateLimit-Limit"] != "200" || h["X-RateLimit-Remaining"] != "0" || h["X-RateLimit-Reset"] == "" || h["Retry-After"] != "" ||
				!strings.Contains(h["RateLimit"], `"requests";r=0;t=1`) {
				t.Errorf("%s: headers %v", r.Name, h)
			}
		}
	}
	resp, l := invokeLogged(t, a, "list-entity", lambdatest.Event("GET", "/entity", blockedAddress, ""))
	if l.Metrics["Blocked"] != 1 || len(l.Metrics) != 1 || l.Level != "INFO" {
		t.Errorf("%d, line %+v", resp.StatusCode, l)
	}
}

func TestAPageIsCutToTheRecordsLimitInForce(t *testing.T) {
	for _, tt := range []struct {
		action  ratelimit.Action
		query   string
		records int
	}{
		{ratelimit.ActionLimit, "", 4},
		{ratelimit.ActionLimit, "?limit=3", 3},
		{ratelimit.ActionLimit, "?limit=200", 4},
		{ratelimit.ActionObserve, "?limit=200", 4},
		{ratelimit.ActionUnlimited, "?limit=200", 11},
	} {
		a := withRows(t, memory.NewCounters(), rowsOf(ratelimit.Limits{Action: tt.action, Records: 4}, "192.0.2.1/32"))
		a.createEntities(t, 11)
		resp := a.invoke(t, "list-entity", lambdatest.Event("GET", "/entity"+tt.query, "192.0.2.1", ""))
		if n := strings.Count(resp.Body, `"id":`); resp.StatusCode != 200 || n != tt.records {
			t.Errorf("%s, %s: %d with %d records, want %d", tt.action, tt.query, resp.StatusCode, n, tt.records)
		}
	}
}

func TestUnlimitedPassesWithoutCounters(t *testing.T) {
	for _, action := range []ratelimit.Action{ratelimit.ActionUnlimited, ratelimit.ActionObserve} {
		a := withRows(t, unreachable{}, rowsOf(ratelimit.Limits{Action: action}, "192.0.2.1/32"))
		resp, l := invokeLogged(t, a, "list-entity", lambdatest.Event("GET", "/entity", "192.0.2.1", ""))
		if resp.StatusCode != 200 || l.Metrics["Allowed"] != 1 || l.Metrics["ChargeFailures"] != 1 || l.Level != "WARN" {
			t.Errorf("%s: %d, line %+v", action, resp.StatusCode, l)
		}
		if resp := a.invoke(t, "list-entity", lambdatest.Event("GET", "/entity", "192.0.2.2", "")); resp.StatusCode != 503 {
			t.Errorf("another address: %d", resp.StatusCode)
		}
	}
}

func TestUsageShowsTheLimitsInForce(t *testing.T) {
	a := withRows(t, memory.NewCounters(), slices.Concat(
		rowsOf(ratelimit.Limits{Action: ratelimit.ActionObserve, Records: 500, Imports: 7}, "192.0.2.0/24"),
		rowsOf(ratelimit.Limits{Action: ratelimit.ActionUnlimited, Requests: 9}, "192.0.2.1/32"),
		rowsOf(ratelimit.Limits{Action: ratelimit.ActionBlock}, "198.51.100.7/32")))
	for address, want := range map[string]string{
		"192.0.2.1":    "unlimited 9 200 200 9",
		"192.0.2.9":    "observe 7 500 7 200",
		"198.51.100.7": "block 200 200 200 200",
		"203.0.113.1":  "limit 200 200 200 200",
	} {
		u := a.usage(t, "203.0.113.1", "?address="+address)
		if got := fmt.Sprintf("%s %d %d %d %d", u.Action, u.Limit, u.Limits.Records, u.Limits.Imports, u.Limits.Requests); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// partly is a RowStore that returns its rows and reports an additional row as invalid.
type partly []ratelimit.Row

func (s partly) List(context.Context) ([]ratelimit.Row, error) {
	return s, ratelimit.InvalidRows{errors.New(`row "192.0.2.0/24": there is no action "Block"`)}
}

func TestARowThatIsNotValidUnblocksNobody(t *testing.T) {
	a := withRows(t, memory.NewCounters(), partly(rowsOf(ratelimit.Limits{Action: ratelimit.ActionBlock}, "198.51.100.7/32")))
	resp, l := invokeLogged(t, a, "list-entity", lambdatest.Event("GET", "/entity", "198.51.100.7", ""))
	if resp.StatusCode != 403 || l.Metrics["LimitsInvalid"] != 1 || l.Metrics["LimitsStale"] != 0 || l.Metrics["LimitsUnread"] != 0 || l.Level != "WARN" || !strings.Contains(l.LimitsError, `no action "Block"`) {
		t.Errorf("%d, line %+v", resp.StatusCode, l)
	}
}
