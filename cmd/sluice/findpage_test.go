package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
	"sluice/pkg/index"
)

const recordTitle = `document.getElementById('record-title')?.textContent`

// One search box finds entities and events by id. Each open record has a URL, errors name a
// filter by its label on the page, and the page says when an erasure is complete.
func dashboardFinds(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	seedBrowsing(t, s)
	tab := b.Tab(t, browsertest.Phone)
	find := func(text, until string) {
		t.Helper()
		browsertest.Eval[bool](tab, `(document.getElementById('find').focus(), document.getElementById('find').select()) ?? true`)
		tab.Press(text, kb.Enter)
		tab.Wait(until)
	}
	s.clientAt(t, browserAddress).want(t, http.StatusCreated, "POST", "/create_events", more(11))
	tab.Open(s.url + "/dashboard")
	tab.Wait(names + `.startsWith('more ')`)
	if got := browsertest.Eval[float64](tab, `document.querySelector('#records tbody tr').getBoundingClientRect().bottom`); got > float64(browsertest.Phone.Height) {
		t.Errorf("on a phone, the first row ends at %v pixels, below the first screen", got)
	}
	// The view says that the limit is used up, keeps its rows, and tries again.
	tab.Answer(answers{"/event": problem(http.StatusTooManyRequests, "quota_exceeded", "the limit is used up")})
	tab.Click("#records-next")
	tab.Wait(textOf("records-notice") + `.startsWith('Your limit is used up for the moment.') && document.querySelectorAll('#records tbody tr').length === 25`)
	tab.Audit("records-nothing-left")
	tab.Answer(nil)
	tab.Wait(names + `.endsWith('came_late') && !` + visible("records-notice"))
	tab.Click("#find")
	find("nobody", visible("found-none")+`&& document.activeElement.id === 'found-title'`)
	tab.Audit("not-found")
	find("paid-07", recordTitle+` === 'Event paid-07' && location.search === '?resource=event&id=paid-07'`)
	find("customer-03", recordTitle+` === 'Entity customer-03' && document.getElementById('record-events-count')?.textContent === '(14)'`)
	// The page exports the events of an entity as a CSV file.
	next := tab.DownloadInto(t.TempDir())
	tab.Click("#record-events-actions button")
	tab.Wait(`location.search === '?view=exports' && document.querySelector('#exports [data-status=succeeded]')`)
	browsertest.Eval[bool](tab, `document.querySelector('#exports [data-status=succeeded] button').click() ?? true`) // not tab.Click, because the layout may still move
	file := next()
	if want := "events-customer-03-" + time.Now().UTC().Format(time.DateOnly) + ".csv"; file.Name != want {
		t.Errorf("the browser saves the file as %s, want %s", file.Name, want)
	}
	if text := read(t, file.Path); !strings.HasPrefix(text, "id,name,entity_id,") || strings.Count(text, "\r\n") != 15 {
		t.Errorf("the file has %q", text)
	}
	tab.Click("#name")
	tab.Press("order_paid", kb.Enter)
	tab.Wait(`[...document.querySelectorAll('#exports [data-status=succeeded] .job-filters')].some((p) => p.textContent === 'entity customer-03 · name order_paid')`)
	tab.Open(s.url + "/dashboard?resource=entity&id=a%2Fb")
	tab.Wait(`document.getElementById('record-message')?.textContent.startsWith('This is not an id: an id must be 1 to 128')`)

	tab.Open(s.url + "/dashboard?page=2") // a link that someone shared has a page number but no cursors
	tab.Wait(names + `.endsWith('came_late') && document.getElementById('records-page').textContent === 'Page 2'`)
	tab.Open(s.url + "/dashboard?entity_id=ada%40")
	tab.Wait(`document.getElementById('records-error')?.textContent.startsWith('Entity id must be') && document.querySelectorAll('#records tbody tr').length === 0`)
	tab.Open(s.url + "/dashboard?from=2026-02-02T00:00:00Z&to=2026-01-01T00:00:00Z")
	tab.Wait(`document.getElementById('records-error')?.textContent === 'From must be earlier than Before.' && document.querySelector('#records-from[aria-invalid]')`)
	tab.Audit("records-wrong-filter")

	tab.Open(s.url + "/dashboard?resource=entity&id=customer-03")
	tab.Wait(`document.getElementById('record-events-count')?.textContent === '(14)'`) // the count moves the elements below, so it must appear before the click
	tab.Click("#erase > summary")
	tab.Click("#erase-id")
	tab.Press("customer-04", kb.Enter)
	tab.Wait(`document.getElementById('erase-id-error').textContent.startsWith('This is not the id') && document.activeElement.id === 'erase-id'`)
	tab.Audit("record-erase")
	browsertest.Eval[bool](tab, `(document.getElementById('erase-id').focus(), document.getElementById('erase-id').select()) ?? true`)
	tab.Press("customer-03", kb.Enter)
	tab.Wait(`document.getElementById('erase-state')?.textContent === 'Erased: the entity and 14 events.'`)
	c := s.client(t)
	c.want(t, http.StatusNotFound, "GET", "/entity/customer-03", "")
	c.want(t, http.StatusNotFound, "GET", "/event/paid-07", "")
}

// The browser remembers the time zone. After a change of zone, the filters still mean the same
// instants. The active preset is marked.
func dashboardShowsTimesInAZone(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	s.clientAt(t, browserAddress).want(t, http.StatusCreated, "POST", "/create_event", `{"id":"e","name":"n","occurred_at":"2026-01-02T23:30:00Z"}`)
	tab := b.Tab(t, browsertest.Desktop)
	tab.TimeZone("Asia/Kolkata") // 5.5 hours ahead of UTC
	tab.Open(s.url + "/dashboard?from=2026-01-02T20:00:00Z")
	shown := func(zone, time, from string) string {
		return fmt.Sprintf(`document.querySelector('#records time')?.textContent === %q && document.getElementById('records-from')?.value === %q && document.querySelector('.zone')?.textContent.startsWith('Times are in %s.') && true`, time, from, zone)
	}
	kolkata := "(" + shown("Asia/Kolkata", "Jan 3, 2026, 05:00:00", "2026-01-03T01:30") + "||" + shown("Asia/Calcutta", "Jan 3, 2026, 05:00:00", "2026-01-03T01:30") + ")"
	tab.Wait(kolkata)
	tab.Click("#about-summary")
	tab.Click("#zones label:has([value=utc])")
	tab.Wait(shown("UTC", "Jan 2, 2026, 23:30:00", "2026-01-02T20:00") + `&& location.search.includes('from=2026-01-02T20')`)
	tab.Open(s.url + "/dashboard?from=2026-01-02T20:00:00Z")
	tab.Wait(shown("UTC", "Jan 2, 2026, 23:30:00", "2026-01-02T20:00"))
	tab.Click("#records-filters > summary")
	tab.Click("#records-form [data-preset=week]")
	tab.Wait(`document.querySelector('#records-form [data-preset=week]')?.ariaPressed === 'true' && document.querySelectorAll('#records-form [aria-pressed=true]').length === 1`)
	week := browsertest.Eval[[]string](tab, `[...new FormData(document.getElementById('records-form'))].filter(([name]) => name === 'from' || name === 'to').map(([, value]) => value)`)
	if len(week) != 2 || browsertest.Eval[float64](tab, fmt.Sprintf(`(Date.parse(%q+'Z') - Date.parse(%q+'Z')) / 86_400_000`, week[1], week[0])) != 7 ||
		browsertest.Eval[float64](tab, fmt.Sprintf(`new Date(%q+'Z').getUTCDay()`, week[0])) != 1 {
		t.Errorf("last week is %v, want seven days from a Monday", week)
	}
}

// stalePages starts a proxy that begins each search for an email address with an empty page, as
// if all index entries on it were out of date. A search for gone@ gets only such pages.
func stalePages(t *testing.T, target string) (url string) {
	t.Helper()
	return startProxy(t, target, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		switch prefix := q.Get("attributes.email[prefix]"); {
		case prefix == "gone@", prefix != "" && !q.Has("cursor"):
			fmt.Fprint(w, `{"data":[],"next_cursor":"stale"}`)
			return
		case q.Get("cursor") == "stale":
			q.Del("cursor")
			r.URL.RawQuery = q.Encode()
		}
		next.ServeHTTP(w, r)
	})
}

// startWithPeople starts a server with an importer and indexes of people's email addresses and prices.
func startWithPeople(t *testing.T, env ...string) *server {
	t.Helper()
	s := startWithImporter(t, env...)
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "--fold"), 0, "", "does the rest while it runs")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "price", "--number"), 0, "", "does the rest while it runs")
	await(t, "ready", func() bool {
		return !slices.ContainsFunc(s.declarations(t), func(d index.Declaration) bool { return d.State != index.Ready })
	})
	return s
}

// The search box takes the beginning of a value, in any case. The indexed attributes also filter
// and sort the list.
func dashboardFindsByValue(t *testing.T, b *browsertest.Browser) {
	s := startWithPeople(t)
	c := s.clientAt(t, browserAddress)
	var people []string
	for i := range 11 {
		people = append(people, fmt.Sprintf(`{"id":"team-%02d","type":"person","attributes":{"email":"team@%02d","price":%d.5}}`, i, i, 100-i))
	}
	c.want(t, http.StatusCreated, "POST", "/upsert_entities", `{"entities":[`+strings.Join(people, ",")+`]}`)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"email":"Ada@example.com"}}`)
	tab := b.Tab(t, browsertest.Tablet)
	tab.Open(stalePages(t, s.url) + "/dashboard")
	tab.Wait(textOf("find-hint") + `=== 'The id of an entity or an event, the beginning of a text, in upper or lower case (person email), a number (person price).'`)
	for _, tt := range []struct{ text, want string }{
		{"991", "Nothing found for 991No entity and no event has this id. No entity has it as the beginning of a text, in upper or lower case (person email), a number (person price)."},
		{"gone@", "Nothing found for gone@The search ended early"},
		{"Team@", "The first 10 records for Team@"},
	} {
		browsertest.Eval[bool](tab, `(document.getElementById('find').focus(), document.getElementById('find').select()) ?? true`)
		tab.Press(tt.text, kb.Enter)
		tab.Wait(`(document.getElementById('found-title')?.textContent + (document.getElementById('found-none')?.textContent ?? '')).startsWith('` + tt.want + `') && document.activeElement.id === 'found-title'`)
	}
	tab.Audit("found")
	tab.Shortcut("/") // from everywhere
	tab.Press("aDa@", kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity ada' && document.activeElement.id === 'record-title'`) // a single match opens at once

	tab.Open(s.url + "/dashboard?resource=entity&type=person")
	tab.Wait(names + `.startsWith('ada team-00')`)
	browsertest.Eval[bool](tab, `[...document.querySelectorAll('#records .sort')].find((b) => b.textContent === 'price').click() ?? true`)
	tab.Wait(`location.search === '?resource=entity&type=person&order=attributes.price' && ` + names + `.startsWith('team-10 team-09')`) // ada has no price
	tab.Click("#records-filters > summary")
	browsertest.Eval[bool](tab, setInput(`[name="operator price"]`, "gte")+` && (document.querySelector('[name="condition price"]').focus() ?? true)`)
	tab.Audit("records-filter")
	tab.Press("99", kb.Enter)
	tab.Wait(names + ` === 'team-01 team-00' && [...document.querySelectorAll('#records-list .chip')].at(-1).textContent === 'price ≥ 99'`)
	tab.Do(chromedp.Reload())
	tab.Wait(names + ` === 'team-01 team-00'`)
}
