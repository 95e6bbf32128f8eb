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
	open("", names+` === 'order_paid '.repeat(10).trim()`)
	tab.Click("#records-next")
	tab.Wait(names + ` === 'order_paid '.repeat(4) + 'came_late' && document.getElementById('records-page').textContent === 'Page 2'`)
	tab.Do(chromedp.Reload())
	tab.Wait(names + `.endsWith('came_late')`)
	tab.Click("#records-previous")
	tab.Wait(names + `.endsWith('order_paid') && document.getElementById('records-page').textContent === 'Page 1'`)
	back(names + `.endsWith('came_late')`)
	open("?to=2100-01-01T00:00:00Z", names+`.startsWith('far_future order_paid')`)
	open("?order=created", names+`.startsWith('came_late ')`)
	tab.Click("#records-filters > summary")
	tab.Click("#records-form [data-preset=hour]")
	tab.Wait(`new URLSearchParams(location.search).get('from') !== null && ` + names + `.startsWith('came_late ')`)

	// The URL contains the filters from the form. Hostile text does not affect the layout.
	tab.Click("#records-card label:has([value=entity])")
	tab.Wait(`location.search.startsWith('?resource=entity&order=changed') && ` + names + `.startsWith('customer-00 ')`)
	browsertest.Eval[bool](tab, `Boolean(document.querySelector('#records-form [name=order]').value = 'id')`)
	browsertest.Eval[bool](tab, `document.querySelector('#records-form [name=order]').dispatchEvent(new Event('change', {bubbles: true}))`)
	tab.Wait(`location.search.startsWith('?resource=entity&order=id') && ` + names + `.startsWith('customer-00 customer-01 ')`)
	tab.Click("#records-type")
	browsertest.Eval[bool](tab, `Boolean(document.getElementById('records-type').value = 'gpj.\u202epaid')`) // a keyboard cannot type U+202E
	tab.Press(kb.Enter)
	tab.Wait(names + ` === 'hostile'`)
	tab.Do(chromedp.Reload())
	tab.Wait(names + ` === 'hostile' && document.getElementById('records-type').value.startsWith('gpj.')`)
	if got := browsertest.Eval[string](tab, `document.querySelector('#records li').textContent`); strings.Contains(got, "\u202e") || strings.Count(got, `\u202e`) != 2 {
		t.Errorf("the row shows %+q, want two escapes in place of U+202E", got)
	}
	if got := browsertest.Eval[string](tab, `[...document.querySelectorAll('#records bdi')].map((e) => getComputedStyle(e).unicodeBidi).join(' ')`); got != "isolate isolate isolate" {
		t.Errorf("stored text is %s, want it isolated", got)
	}
	tab.Audit("browse")
	open("?resource=entity&type=nobody", `document.getElementById('records-empty').textContent.includes('No entities match')`)
	tab.Audit("nothing-found")
	tab.Click("#records-empty button")
	tab.Wait(names + `.startsWith('customer-00 customer-01 ')`)
	open("?resource=entity&order=changed", names+`.startsWith('customer-00 hostile ')`)

	browseRecords(t, tab, back)
}

// browseRecords follows the links from an entity to one of its events, and back to the entity.
func browseRecords(t *testing.T, tab *browsertest.Tab, back func(until string)) {
	t.Helper()
	const title = `document.getElementById('record-title').textContent`
	tab.Click("#records li:nth-child(2) a")
	tab.Wait(title + ` === 'Entity hostile' && document.querySelector('#record-json').textContent.includes('reversed') && document.activeElement.id === 'record-title'`)
	tab.Click("#record-back")
	tab.Wait(names + `.startsWith('customer-00 hostile ') && location.search === '?resource=entity&order=changed'`)

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
	tab.Wait(`document.getElementById('record-message').textContent.startsWith('No entity has this id') && document.getElementById('record-events-hint').textContent.startsWith('No event')`)
	tab.Audit("no-record")
}
