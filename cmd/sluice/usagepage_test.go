package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
)

// everyone returns the usage of an operator, with a list of those who use the most.
func everyone(period string, data any, more map[string]any) browsertest.Answer {
	usage := busyMinute()
	body := usage.Body.(map[string]any)
	body["caller"] = map[string]any{"workspace": "acme", "key_id": "k3y9f2m7q4xz", "scopes": []string{"dashboard", "export", "operator"}}
	list := map[string]any{"period": period, "start": time.Now().Unix() - 59, "left_out": 0, "complete": true}
	if data != nil {
		list["data"] = data
	}
	maps.Copy(list, more)
	body["identities"] = list
	return usage
}

func identity(counted, action string, records, imports int, requests, refused, share any, key ...string) map[string]any {
	u := map[string]any{"counted": counted, "action": action, "records": records, "imports": imports, "requests": requests, "refused": refused, "share": share}
	for i, name := range []string{"name", "workspace", "plan"} {
		if i < len(key) && key[i] != "" {
			u[name] = key[i]
		}
	}
	return u
}

// An operator finds who is refused, and looks closer, with the keyboard only.
func dashboardShowsWhoUsesTheMost(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "LIMIT_IMPORTS=2"})
	refused, quiet := s.client(t), s.client(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, c := range []*caller{refused, refused, refused, refused, quiet} {
		wg.Go(func() {
			for pace := time.NewTicker(250 * time.Millisecond); ctx.Err() == nil; <-pace.C {
				method, path, body := http.MethodPost, "/create_event", `{"name":"n"}`
				if c == quiet {
					method, path, body = http.MethodGet, "/event?limit=1", ""
				}
				c.do(t, method, path, body)
			}
		})
	}
	defer wg.Wait()
	defer stop()
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=usage")
	press := func(selector string) {
		t.Helper()
		tab.Wait(fmt.Sprintf(`document.querySelector(%q)`, selector))
		browsertest.Eval[bool](tab, fmt.Sprintf(`document.querySelector(%q).focus() ?? true`, selector))
		tab.Press(kb.Enter)
	}
	const first = `document.querySelector('#identities tbody tr')`
	tab.Wait(first + `?.textContent.includes('100 %')`)
	press("#identities thead th:last-child button")
	tab.Wait(`document.querySelector('#identities th:last-child').ariaSort === 'descending' && new URLSearchParams(location.search).get('sort') === 'refused'`)
	tab.Wait(first + `.querySelector('a').textContent === '` + refused.address + `' && Number(` + first + `.lastElementChild.textContent) > 0`)
	press("#identities tbody a")
	tab.Wait(`document.getElementById('usage-counted').textContent.includes('the address ` + refused.address + `') && document.activeElement.id === 'usage-title'`)
	tab.Wait(`document.querySelector('#identities [aria-current=true]').textContent === '` + refused.address + `'`)
	browsertest.Eval[bool](tab, `history.back() ?? true`)
	tab.Wait(`document.getElementById('address').value === '` + browserAddress + `' && document.querySelector('#identities th:last-child').ariaSort === 'descending'`)
	browsertest.Eval[bool](tab, `document.querySelector('[name=identities]:checked').focus() ?? true`)
	tab.Press(kb.ArrowRight)
	tab.Wait(visible("identities-empty"))
	tab.Audit("usage-of-nobody")

	show := func(query string, a browsertest.Answer, until, name string) {
		t.Helper()
		tab.Answer(answers{"/usage": a})
		tab.Open(s.url + "/dashboard?view=usage" + query)
		tab.Wait(until)
		tab.Audit(name)
	}
	show("", everyone("minute", []any{
		identity("key:7m3kq2xw9abc", "limit", 11_840, 0, 240, 1312, 1.0, "ACME nightly export", "acme", "pro"),
		identity("address:203.0.113.7", "limit", 4200, 1870, 1931, 12, 0.935),
		identity("address:2001:db8:1:2::/64", "limit", 9100, 0, 182, 0, 0.82),
		identity("key:p4t8c2hd6wnm", "observe", 90, 2400, 2411, 0, 0.44, "", "globex"),
		identity("address:198.51.100.23", "block", 0, 0, 0, 418, 0.0),
		identity("address:192.0.2.14", "limit", 50, 0, 1, 0, 0.005),
	}, map[string]any{"left_out": 214}), `document.querySelectorAll('#identities tbody tr').length === 6`, "usage-of-everyone")
	query := map[string]any{"name": "sluice-prod/Refused most", "url": "https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:logs-insights"}
	show("&identities=month", everyone("month", []any{
		identity("key:7m3kq2xw9abc", "limit", 5_000_000, 0, nil, nil, 1.0, "ACME nightly export", "acme", "pro"),
		identity("key:k3y9f2m7q4xz", "limit", 93_400, 17_321, nil, nil, 0.866, "A name that is as long as somebody who describes everything makes it", "acme", "starter"),
		identity("key:p4t8c2hd6wnm", "unlimited", 1_400_211, 90, nil, nil, nil, "", "globex"),
	}, map[string]any{"refusals_query": query, "complete": false}), `document.querySelectorAll('#identities tbody tr').length === 3`, "usage-of-everyone-by-month")
	show("", everyone("minute", nil, map[string]any{"refusals_query": query}), visible("identities-elsewhere"), "usage-of-everyone-on-aws")
	if got := browsertest.Eval[string](tab, `document.querySelector('#identities-elsewhere a').href`); got != query["url"] {
		t.Errorf("the link leads to %s", got)
	}
	plain := busyMinute()
	tab.Answer(answers{"/usage": plain})
	tab.Open(s.url + "/dashboard?view=usage&identities=minute")
	tab.Wait(visible("usage-charts"))
	if browsertest.Eval[bool](tab, `document.getElementById('identities-title') !== null`) {
		t.Error("a key without the scope operator sees who uses the most")
	}
}
