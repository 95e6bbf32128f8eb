package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
)

// seedBrowsing creates 14 customers, one hostile entity and 16 events. The hostile entity's
// type and note contain U+202E, which reverses the direction of text. customer-00 changed
// last, just after the hostile entity. One event is dated far in the future. The last event
// created is dated in the past.
func seedBrowsing(t *testing.T, s *server) {
	t.Helper()
	c := s.clientAt(t, browserAddress)
	var entities, events []string
	for i := range 14 {
		entities = append(entities, fmt.Sprintf(`{"id":"customer-%02d","type":"customer","attributes":{"seats":%d}}`, i, i))
		events = append(events, fmt.Sprintf(`{"id":"paid-%02d","name":"order_paid","entity_id":"customer-03","occurred_at":"2026-01-02T00:00:%02dZ"}`, i, i))
	}
	events = append(events, `{"id":"far","name":"far_future","occurred_at":"2099-01-01T00:00:00Z"}`,
		`{"id":"late","name":"came_late","occurred_at":"2020-01-01T00:00:00Z"}`)
	c.want(t, http.StatusCreated, "POST", "/upsert_entities", `{"entities":[`+strings.Join(entities, ",")+`]}`)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"hostile","type":"gpj.\u202epaid","attributes":{"note":"\u202ereversed"}}`)
	c.want(t, http.StatusCreated, "POST", "/create_events", `{"events":[`+strings.Join(events[:15], ",")+`]}`)
	c.want(t, http.StatusCreated, "POST", "/create_event", events[15])
	c.want(t, http.StatusOK, "POST", "/update_entity", `{"id":"customer-00","attributes":{"seats":50}}`)
}

// names is a JavaScript expression for the names in the listed rows, joined by spaces.
const names = `[...document.querySelectorAll('#records strong')].map((n) => n.textContent).join(' ')`

func dashboardBrowses(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	seedBrowsing(t, s)
	tab := b.Tab(t, browsertest.Desktop)
	open := func(query, until string) {
		t.Helper()
		tab.Open(s.url + "/dashboard" + query)
		tab.Wait(until)
	}
	back := func(until string) {
		t.Helper()
		browsertest.Eval[bool](tab, `history.back() ?? true`)
		tab.Wait(until)
	}

	// The list has two pages. The far-future event appears only if the "to" filter includes its
	// time.
	open("?limit=25", names+` === 'order_paid '.repeat(14) + 'came_late'`)
	s.clientAt(t, browserAddress).want(t, http.StatusCreated, "POST", "/create_events", more(12))
	open("", names+` === 'more '.repeat(12) + 'order_paid '.repeat(12) + 'order_paid'`)
	tab.Click("#records-next")
	tab.Wait(names + ` === 'order_paid came_late' && document.getElementById('records-page').textContent === 'Page 2'`)
	tab.Do(chromedp.Reload())
	tab.Wait(names + `.endsWith('came_late')`)
	tab.Click("#records-previous")
	tab.Wait(names + `.endsWith('order_paid') && document.getElementById('records-page').textContent === 'Page 1'`)
	back(names + `.endsWith('came_late')`)
	open("?to=2100-01-01T00:00:00Z", names+`.startsWith('far_future more')`)
	open("?order=created", names+`.startsWith('more ')`)
	tab.Click("#records-filters > summary")
	tab.Click("#records-form [data-preset=hour]")
	tab.Wait(`new URLSearchParams(location.search).get('from') !== null && ` + names + `.startsWith('more ')`)

	// The heads of the columns sort, and the URL says how.
	tab.Click("#view-records label:has([value=entity])")
	tab.Wait(`location.search === '?resource=entity' && ` + names + `.startsWith('customer-00 hostile ')`)
	sortBy := func(column, until string) {
		t.Helper()
		browsertest.Eval[bool](tab, fmt.Sprintf(`[...document.querySelectorAll('#records .sort')].find((b) => b.textContent === %q).click() ?? true`, column))
		tab.Wait(until)
	}
	sortBy("Id", `location.search === '?resource=entity&order=id' && `+names+`.startsWith('customer-00 customer-01 ')`)
	sortBy("Changed", names+`.startsWith('customer-00 hostile ')`)
	sortBy("Changed", `location.search === '?resource=entity&order=changed&dir=asc' && `+names+`.endsWith('hostile customer-00')`)
	sortBy("Id", names+`.startsWith('customer-00 customer-01 ')`)

	// The URL contains the filters. Hostile text does not affect the layout.
	tab.Click("#records-filters > summary")
	tab.Click("#records-type")
	browsertest.Eval[bool](tab, `Boolean(document.getElementById('records-type').value = 'gpj.\u202epaid')`) // a keyboard cannot type U+202E
	tab.Press(kb.Enter)
	tab.Wait(names + ` === 'hostile'`)
	tab.Do(chromedp.Reload())
	tab.Wait(names + ` === 'hostile' && document.getElementById('records-type').value.startsWith('gpj.')`)
	if got := browsertest.Eval[string](tab, `document.querySelector('#records-list .chip').textContent + document.querySelector('#records tbody tr').textContent`); strings.Contains(got, "\u202e") || strings.Count(got, `\u202e`) != 2 {
		t.Errorf("the filter and the row show %+q, want two escapes in place of U+202E", got)
	}
	if got := browsertest.Eval[string](tab, `[...document.querySelectorAll('#records tbody bdi')].map((e) => getComputedStyle(e).unicodeBidi).join(' ')`); got != "isolate isolate" {
		t.Errorf("stored text is %s, want it isolated", got)
	}
	open("?resource=entity&type=nobody", `document.getElementById('records-empty')?.textContent.includes('No entities match')`)
	tab.Audit("records-nothing-found")
	tab.Click("#records-empty button")
	tab.Wait(names + `.startsWith('customer-00 hostile ')`)

	choosesColumns(t, tab)
	browseRecords(t, tab, back)
}

// more returns a batch of n events.
func more(n int) string {
	return `{"events":[` + strings.TrimSuffix(strings.Repeat(`{"name":"more"},`, n), ",") + `]}`
}

// choosesColumns chooses and orders the columns for one type. The page remembers them for that type only.
func choosesColumns(t *testing.T, tab *browsertest.Tab) {
	t.Helper()
	const heads = `[...document.querySelectorAll('#records thead th')].map((th) => th.textContent).join(' ')`
	open := func(query, want string) {
		t.Helper()
		tab.Open(strings.SplitN(browsertest.Eval[string](tab, "location.href"), "?", 2)[0] + query)
		tab.Wait(heads + ` === '` + want + `'`)
	}
	open("?resource=entity&type=customer", "Id seats Changed")
	tab.Click("#columns > summary")
	click := func(selector string) {
		t.Helper()
		browsertest.Eval[bool](tab, fmt.Sprintf(`document.querySelector(%q).click() ?? true`, selector))
	}
	click(`#columns [aria-label="Move Changed to the left"]`)
	tab.Wait(heads + ` === 'Id Changed seats'`)
	click(`#columns li:has([aria-label="Move seats to the left"]) input`)
	tab.Wait(heads + ` === 'Id Changed'`)
	tab.Audit("records-columns")
	open("?resource=entity&type=customer", "Id Changed")
	open("?resource=entity", "Id Type seats All attributes Changed")
}

// browseRecords follows the links from an entity to one of its events, and back to the entity.
func browseRecords(t *testing.T, tab *browsertest.Tab, back func(until string)) {
	t.Helper()
	const title = `document.getElementById('record-title')?.textContent`
	tab.Click("#records tbody tr:nth-child(2) a")
	tab.Wait(title + ` === 'Entity hostile' && document.getElementById('record-attributes')?.textContent.includes('reversed') && document.activeElement.id === 'record-title'`)
	tab.Wait(names + `.startsWith('customer-00 hostile ')`) // beside the list
	tab.Click("#record-back")
	tab.Wait(names + `.startsWith('customer-00 hostile ') && location.search === '?resource=entity' && document.activeElement.textContent === 'hostile'`)

	tab.Click("#find")
	tab.Press("customer-03", kb.Enter)
	tab.Wait(title + ` === 'Entity customer-03' && document.querySelectorAll('#record-events li').length === 10 && document.getElementById('record-facts').textContent.includes('Revision1')`)
	tab.Click("#record-actions .copy")
	tab.Wait(`document.querySelector('#record-actions .copy').textContent.startsWith('Copied')`)
	tab.Audit("record")
	tab.Click("#record-events a")
	tab.Wait(title + ` === 'Event paid-13' && document.querySelector('#record-facts a')`)
	tab.Click("#record-facts a")
	tab.Wait(title + ` === 'Entity customer-03' && document.querySelectorAll('#record-events li').length === 10`)
	tab.Click("#record-events-actions a")
	tab.Wait(`location.search === '?resource=event&entity_id=customer-03' && ` + names + `.startsWith('order_paid ')`)
	back(title + ` === 'Entity customer-03'`)

	tab.Open(strings.SplitN(browsertest.Eval[string](tab, "location.href"), "?", 2)[0] + "?resource=entity&id=nobody")
	tab.Wait(`document.getElementById('record-message')?.textContent.startsWith('No entity has this id') && document.getElementById('record-events-hint')?.textContent.startsWith('No event')`)
	tab.Audit("record-missing")
}
