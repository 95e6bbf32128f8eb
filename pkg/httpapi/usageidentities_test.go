package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/boltstores"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// watched is an API with a plan and a blocked address, whose clock a test can move.
type watched struct {
	api      *httpapi.API
	stores   httpapi.Stores
	clock    *time.Time
	operator string // token of a key that is counted by its address
}

// plan is that of all keys but the operator's.
var plan = ratelimit.Row{Plan: "pro", Action: "limit", Records: 9, Imports: 4, Requests: 50, Quotas: ratelimit.Quotas{RecordsPerDay: 100, ImportsPerMonth: 11}}

func watch(t *testing.T, change func(*httpapi.Stores, *httpapi.Options)) watched {
	t.Helper()
	at := now()
	clock := func() time.Time { return at }
	stores, counters := boltstores.New(t, clock)
	stores.ExportLinks, stores.ExportDeleter = links{}, links{}
	limiter, err := ratelimit.New(counters, ratelimit.Config{Now: clock, Limits: ratelimit.Limits{Records: 20, Imports: 5, Requests: 10}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := access.NewAuthenticator(stores.Keys, clock)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ratelimit.NewRowCache(rows{plan, rowsOf(ratelimit.Limits{Action: ratelimit.ActionBlock}, "203.0.113.9/32")[0]}, ratelimit.RowCacheConfig{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	opts := httpapi.Options{Config: httpapi.Config{Service: "sluice-test"}, Access: keys, Rows: table, Now: clock, RequestID: requestID, Logger: slog.New(slog.DiscardHandler)}
	change(&stores, &opts)
	w := watched{stores: stores, clock: &at}
	if w.api, err = httpapi.New(limiter, stores, opts); err != nil {
		t.Fatal(err)
	}
	_, w.operator = w.key(t, access.Key{Workspace: "default", Scopes: []access.Scope{access.Dashboard, access.Operator}})
	return w
}

func (w watched) key(t *testing.T, like access.Key) (identity, token string) {
	t.Helper()
	k, secret := secrettest.New(t, like, now().Add(-time.Hour))
	if err := w.stores.Keys.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return ratelimit.KeyIdentity(k.ID), secret.Reveal()
}

func (w watched) send(t *testing.T, address, token, method, target, body string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	ev := lambdatest.Event(method, target, address, body)
	if token != "" {
		ev.Headers["authorization"] = "Bearer " + token
	}
	resp := serve(t, w.api, ev)
	checkDescribed(t, ev, resp)
	return resp
}

func (w watched) list(t *testing.T, query string) api.UsageIdentities {
	t.Helper()
	resp := w.send(t, "198.51.100.200", w.operator, "GET", "/usage?"+query, "")
	var u api.Usage
	if err := json.Unmarshal([]byte(resp.Body), &u); err != nil || resp.StatusCode != http.StatusOK || u.Identities == nil {
		t.Fatalf("%s: %d %s, error %v", query, resp.StatusCode, resp.Body, err)
	}
	return *u.Identities
}

// tally is what the responses say that an identity has used, with the peaks of a second.
type tally struct {
	records, imports, requests, refused int64
	peaks                               map[string]int64 // by rule
}

// tallies counts what responses say, by identity.
type tallies struct {
	all    map[string]*tally
	second map[string]int64 // by identity and counter
}

func (c *tallies) note(identity, route string, resp events.APIGatewayV2HTTPResponse) {
	if c.all[identity] == nil {
		c.all[identity] = &tally{peaks: make(map[string]int64)}
	}
	one := c.all[identity]
	if resp.StatusCode == http.StatusTooManyRequests || strings.Contains(resp.Body, "address_blocked") {
		one.refused++
		return
	}
	count := func(rule, counter string, n int64) {
		c.second[identity+counter] += n
		one.peaks[rule] = max(one.peaks[rule], c.second[identity+counter])
	}
	one.requests++
	count("requests", "r_"+route, 1)
	switch route {
	case "list-event":
		n := int64(strings.Count(resp.Body, `"created_at"`))
		one.records += n
		count("records", "records", n)
	case "create-event":
		one.imports++
		count("imports", "imports", 1)
	}
}

func (one *tally) share(l ratelimit.Limits) float64 {
	return max(float64(one.peaks["records"])/float64(l.Records), float64(one.peaks["imports"])/float64(l.Imports), float64(one.peaks["requests"])/float64(l.Requests))
}

func (one *tally) String() string {
	return fmt.Sprintf("%d records, %d imports, %d requests, %d refused", one.records, one.imports, one.requests, one.refused)
}

// The list says what was charged and refused, of addresses and keys, over several seconds.
func TestUsageOfAllIsWhatWasCharged(t *testing.T) {
	w := watch(t, func(*httpapi.Stores, *httpapi.Options) {})
	inOut := []access.Scope{access.Import, access.Export}
	_, plain := w.key(t, access.Key{Workspace: "default", Scopes: inOut})
	acme, acmeToken := w.key(t, access.Key{Workspace: "acme", Name: "Ada's laptop", Plan: "pro", Scopes: inOut})
	bolt, boltToken := w.key(t, access.Key{Workspace: "bolt", Plan: "pro", Scopes: inOut})
	c := tallies{all: make(map[string]*tally)}
	for second := range 3 {
		c.second = make(map[string]int64)
		for n := range 9 + 3*second {
			address := fmt.Sprintf("192.0.2.%d", n%4)
			for _, tt := range []struct{ identity, address, token string }{
				{address, address, plain}, {"2001:db8:1:2::/64", fmt.Sprintf("2001:db8:1:2::%d", n), plain},
				{acme, address, acmeToken}, {bolt, "198.51.100.7", boltToken}, {"203.0.113.9", "203.0.113.9", acmeToken},
			} {
				if n%3 > 0 || tt.identity != bolt {
					c.note(tt.identity, "create-event", w.send(t, tt.address, tt.token, "POST", "/create_event", fmt.Sprintf(`{"id":"%d.%d","name":"n"}`, second, n)))
				}
				if n%2 == 0 {
					c.note(tt.identity, "list-event", w.send(t, tt.address, tt.token, "GET", "/event?limit=3", ""))
				}
				public := tt.address // which is counted on a public route
				if strings.Contains(public, ":") {
					public = "2001:db8:1:2::/64"
				}
				c.note(public, "not-found", w.send(t, tt.address, "", "GET", "/nowhere", ""))
			}
		}
		*w.clock = w.clock.Add(time.Second)
	}
	normal := ratelimit.Limits{Records: 20, Imports: 5, Requests: 10}

	list := w.list(t, "identities=minute&sort=refused")
	got := make(map[string]*tally)
	for i, u := range list.Data {
		identity, limits, action := strings.TrimPrefix(u.Counted, "address:"), normal, "limit"
		got[identity] = &tally{records: u.Records, imports: u.Imports, requests: *u.Requests, refused: *u.Refused}
		switch identity {
		case acme, bolt:
			limits = plan.Limits()
		case "203.0.113.9":
			action = "block"
		case "198.51.100.200": // the operator, whose request is in the list itself
			continue
		}
		if want := c.all[identity].share(limits); *u.Share != want || u.Action != action {
			t.Errorf("%s: share %v, action %s, want %v, %s", identity, *u.Share, u.Action, want, action)
		}
		if i > 0 && *u.Refused > *list.Data[i-1].Refused {
			t.Errorf("%s is after %s", u.Counted, list.Data[i-1].Counted)
		}
		if identity == acme && (u.Name != "Ada's laptop" || u.Workspace != "acme" || u.Plan != "pro") {
			t.Errorf("%+v", u)
		}
	}
	c.all["198.51.100.200"] = &tally{requests: 1}
	if !maps.EqualFunc(got, c.all, func(a, b *tally) bool { return a.String() == b.String() }) {
		t.Errorf("the list has %v, want %v", got, c.all)
	}
	if c.all["203.0.113.9"].requests > 0 || c.all["203.0.113.9"].refused == 0 || c.all[acme].refused == 0 || c.all[bolt].records == 0 {
		t.Errorf("the test shows little: %v", c.all)
	}

	for period, of := range map[string]func(*tally) float64{
		"day":   func(one *tally) float64 { return float64(one.records) / float64(plan.RecordsPerDay) },
		"month": func(one *tally) float64 { return float64(one.imports) / float64(plan.ImportsPerMonth) },
	} {
		list := w.list(t, "identities="+period)
		if len(list.Data) != 2 || !list.Complete || list.LeftOut != 0 {
			t.Errorf("%s: %+v", period, list)
		}
		for _, u := range list.Data {
			if want := c.all[u.Counted]; want == nil || u.Records != want.records || u.Imports != want.imports || *u.Share != of(want) || u.Requests != nil || u.Refused != nil {
				t.Errorf("%s: %+v, want %v", period, u, want)
			}
		}
		if !slices.IsSortedFunc(list.Data, func(a, b api.IdentityUsage) int { return int(1000 * (*b.Share - *a.Share)) }) {
			t.Errorf("%s: %+v", period, list.Data)
		}
	}
	*w.clock = w.clock.Add(time.Minute)
	if list := w.list(t, "identities=minute"); len(list.Data) != 1 || list.Start != w.clock.Unix()-59 {
		t.Errorf("a minute later: %+v", list)
	}
}

func TestWhoMaySeeTheUsageOfAll(t *testing.T) {
	w := watch(t, func(*httpapi.Stores, *httpapi.Options) {})
	_, dashboard := w.key(t, access.Key{Workspace: "default", Scopes: []access.Scope{access.Dashboard}})
	for _, tt := range []struct {
		token, query string
		status       int
		want         string
	}{
		{dashboard, "identities=minute", 403, `"code":"missing_scope"`},
		{w.operator, "identities=minute", 200, `"identities":{"period":"minute"`},
		{w.operator, "identities=year", 400, `"field":"identities","detail":"must be minute, day or month"`},
		{w.operator, "identities=", 400, `"field":"identities"`},
		{w.operator, "sort=share", 400, `"field":"sort","detail":"needs the parameter identities"`},
		{w.operator, "identities=minute&sort=name", 400, `"field":"sort","detail":"of a minute must be one of share, records, imports, requests, refused"`},
		{w.operator, "identities=month&sort=refused", 400, `"field":"sort","detail":"of a month must be one of share, records, imports"`},
		{w.operator, "identities=day&address=192.0.2.1", 400, `"field":"identities","detail":"cannot be combined`},
		{w.operator, "identities=day&key=7m3kq2xw9abc", 400, `"field":"identities","detail":"cannot be combined`},
	} {
		if resp := w.send(t, "198.51.100.1", tt.token, "GET", "/usage?"+tt.query, ""); resp.StatusCode != tt.status || !strings.Contains(resp.Body, tt.want) {
			t.Errorf("%s: %d %s", tt.query, resp.StatusCode, resp.Body)
		}
	}
}

// Where other processes count too, there is no list of a minute, and the response says where to look.
func TestUsageOfAllOnAWS(t *testing.T) {
	w := watch(t, func(s *httpapi.Stores, o *httpapi.Options) {
		s.Minute, o.LogsConsole = nil, "https://console.example.com/logs"
	})
	if list := w.list(t, "identities=minute"); list.Data != nil || list.RefusalsQuery == nil || *list.RefusalsQuery != (api.SavedQuery{Name: "sluice-test/Refused most", URL: "https://console.example.com/logs"}) {
		t.Errorf("%+v", list)
	}
	if list := w.list(t, "identities=day"); list.Data == nil || len(list.Data) > 0 || list.RefusalsQuery == nil {
		t.Errorf("%+v", list)
	}
}

func TestUsageOfAllLeavesOutWhatIsTooMuch(t *testing.T) {
	w := watch(t, func(*httpapi.Stores, *httpapi.Options) {})
	for n := range 250 {
		for range n%3 + 1 {
			w.send(t, fmt.Sprintf("192.0.2.%d", n), "", "GET", "/nowhere", "")
		}
	}
	list := w.list(t, "identities=minute&sort=requests")
	if len(list.Data) != 100 || list.LeftOut != 151 || *list.Data[82].Requests != 3 || *list.Data[99].Requests != 2 {
		t.Errorf("%d listed, %d left out: %+v", len(list.Data), list.LeftOut, list.Data)
	}
}

// Keys that could not be used in the period, or are counted by address, take no read.
func TestUsageOfADayReadsOnlyKeysThatAreCounted(t *testing.T) {
	var asked asks
	keys := manyKeys{}
	w := watch(t, func(s *httpapi.Stores, _ *httpapi.Options) {
		asked.UsageStore, s.Usage = s.Usage, &asked
		keys.Manager, s.Keys = s.Keys, &keys
	})
	used, _ := w.key(t, access.Key{Workspace: "w", Plan: "pro", Scopes: []access.Scope{access.Export}})
	w.key(t, access.Key{Workspace: "w", Scopes: []access.Scope{access.Export}})
	revoke := func(at time.Time) string {
		identity, _ := w.key(t, access.Key{Workspace: "w", Plan: "pro", Scopes: []access.Scope{access.Export}})
		id, _ := ratelimit.KeyID(identity)
		if _, err := w.stores.Keys.Revoke(t.Context(), id, at); err != nil {
			t.Fatal(err)
		}
		return identity
	}
	today := revoke(now())
	revoke(now().AddDate(0, 0, -1))
	w.list(t, "identities=day")
	if want := slices.Sorted(slices.Values([]string{used, today})); !slices.Equal(slices.Sorted(slices.Values(asked.keys)), want) {
		t.Errorf("%v were read, want %v", asked.keys, want)
	}
	keys.extra = 999
	if list := w.list(t, "identities=day"); list.Complete || len(asked.keys) != 1000 {
		t.Errorf("%d keys were read, complete %v", len(asked.keys), list.Complete)
	}
}

// manyKeys lists further keys that have a plan.
type manyKeys struct {
	access.Manager
	extra int
}

func (m *manyKeys) List(ctx context.Context, workspace, after string, limit int) ([]access.Key, string, error) {
	keys, next, err := m.Manager.List(ctx, workspace, after, limit)
	for n := range m.extra {
		keys = append(keys, access.Key{ID: fmt.Sprint(n), Plan: "pro"})
	}
	return keys, next, err
}

// asks is a UsageStore that remembers which keys were read last.
type asks struct {
	ratelimit.UsageStore
	keys []string
}

func (a *asks) Sums(ctx context.Context, keys []string, p ratelimit.Period, w ratelimit.Window) (map[string]ratelimit.PeriodUsage, error) {
	a.keys = keys
	return a.UsageStore.Sums(ctx, keys, p, w)
}
