package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

type usage struct {
	Address string
	Action  string
	Limit   int64
	Limits  struct{ Records, Imports, Requests int64 }
	Seconds []struct {
		Second, Records, Imports int64
		Requests                 map[string]int64
	}
}

func (a service) usage(t *testing.T, sourceIP, query string) usage {
	t.Helper()
	resp := a.invoke(t, "usage", lambdatest.Event("GET", "/usage"+query, sourceIP, ""))
	var u usage
	if err := json.Unmarshal([]byte(resp.Body), &u); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s: %v", resp.StatusCode, resp.Body, err)
	}
	return u
}

func TestUsageShowsTheLastMinute(t *testing.T) {
	a := newAPI(t)
	for i := range 3 {
		a.post(t, "create-event", fmt.Sprintf(`{"id":"e%d","name":"n"}`, i))
	}
	a.get(t, "list-event", "/event?limit=2")
	a.get(t, "list-event", "/event")
	a.get(t, "not-found", "/nowhere")
	u := a.usage(t, "192.0.2.1", "")
	if u.Address != "192.0.2.1" || u.Limit != 200 || u.Limits.Records != 200 || u.Limits.Imports != 200 || u.Limits.Requests != 200 || len(u.Seconds) != 60 {
		t.Fatalf("%+v", u)
	}
	last := now().Unix()
	for i, s := range u.Seconds {
		if want := last - 59 + int64(i); s.Second != want {
			t.Errorf("entry %d is of the second %d, want %d", i, s.Second, want)
		}
		if i < 59 && (s.Records != 0 || s.Imports != 0 || s.Requests == nil || len(s.Requests) != 0) {
			t.Errorf("entry %d: %+v", i, s)
		}
	}
	s := u.Seconds[59] // the current second, including the usage request itself
	if got := fmt.Sprint(s.Records, s.Imports, s.Requests); got != "5 3 map[create-event:3 list-event:2 not-found:1 usage:1]" {
		t.Errorf("the current second: %s", got)
	}
}

func TestUsageTellsTheCallerItsKey(t *testing.T) {
	g := newGuarded(t)
	key := g.key(t, "mine", access.Export, access.Dashboard)
	resp := g.invoke(t, "usage", key, lambdatest.Event("GET", "/usage", "192.0.2.1", ""))
	if want := fmt.Sprintf(`"caller":{"workspace":"mine","key_id":%q,"scopes":["dashboard","export"]}}`, strings.Split(key, "_")[1]); !strings.HasSuffix(strings.TrimSpace(resp.Body), want) {
		t.Errorf("the response ends with %s, want %s", resp.Body[max(0, len(resp.Body)-200):], want)
	}
	resp = newAPI(t).invoke(t, "usage", lambdatest.Event("GET", "/usage", "192.0.2.1", ""))
	if want := `"caller":{"workspace":"default","key_id":null,"scopes":["admin","dashboard","erase","export","import","operator"]}}`; !strings.HasSuffix(strings.TrimSpace(resp.Body), want) {
		t.Errorf("with keys off it ends with %s, want %s", resp.Body[max(0, len(resp.Body)-200):], want)
	}
}

func TestUsageOfAnotherAddress(t *testing.T) {
	a := newAPI(t)
	for _, ip := range []string{"198.51.100.7", "2001:db8:1:2:3::4"} {
		a.invoke(t, "not-found", lambdatest.Event("GET", "/nowhere", ip, ""))
	}
	for _, tt := range []struct{ client, address, counted string }{
		{"192.0.2.1", "198.51.100.7", "198.51.100.7"},
		{"192.0.2.1", "::ffff:198.51.100.7", "198.51.100.7"},
		{"192.0.2.1", "2001:db8:1:2::", "2001:db8:1:2::/64"},
		{"192.0.2.1", "2001:db8:1:2::/64", "2001:db8:1:2::/64"}, // the form in which a response shows the address
		{"2001:db8:1:2:3::5", "", "2001:db8:1:2::/64"},
	} {
		query := ""
		if tt.address != "" {
			query = "?address=" + url.QueryEscape(tt.address)
		}
		if u := a.usage(t, tt.client, query); u.Address != tt.counted || u.Seconds[59].Requests["not-found"] != 1 {
			t.Errorf("%s of %s: %s, %+v", tt.address, tt.client, u.Address, u.Seconds[59])
		}
	}
	for _, query := range []string{"address=", "address=here", "address=192.0.2.1/64/64", "address=192.0.2.1&address=192.0.2.2", "address=2001:db8::/48", "ip=192.0.2.1"} {
		if resp := a.get(t, "usage", "/usage?"+query); resp.StatusCode != 400 || !strings.Contains(resp.Body, `"code":"invalid_parameter"`) {
			t.Errorf("%s: %d %s", query, resp.StatusCode, resp.Body)
		}
	}
}

type silentUsage struct{ ratelimit.UsageStore }

func (silentUsage) Used(context.Context, string, []ratelimit.Route, ratelimit.Window) (ratelimit.Used, error) {
	return ratelimit.Used{}, context.DeadlineExceeded
}

func TestUsageThatCannotBeReadIs503(t *testing.T) {
	a := newAPI(t)
	a.stores.Usage = silentUsage{}
	if resp := a.get(t, "usage", "/usage"); resp.StatusCode != 503 || resp.Headers["Retry-After"] != "1" || !strings.Contains(resp.Body, `"code":"store_unavailable"`) {
		t.Errorf("%d %s %v", resp.StatusCode, resp.Body, resp.Headers)
	}
}
