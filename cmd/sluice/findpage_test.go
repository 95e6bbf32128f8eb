package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
	"sluice/pkg/index"
)

const recordTitle = `document.getElementById('record-title').textContent`

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
	tab.Open(s.url + "/dashboard")
	tab.Wait(names + `.startsWith('order_paid ')`)
	if got := browsertest.Eval[float64](tab, `document.querySelector('#records > li').getBoundingClientRect().bottom`); got > float64(browsertest.Phone.Height) {
		t.Errorf("on a phone, the first result ends at %v pixels, below the first screen", got)
	}
	// The card says that the limit is used up, keeps its rows, and tries again.
	tab.Answer(answers{"/event": problem(http.StatusTooManyRequests, "quota_exceeded", "the limit is used up")})
	tab.Click("#records-next")
	tab.Wait(textOf("records-notice") + `.startsWith('Your limit is used up for the moment.') && document.querySelectorAll('#records > li').length === 10`)
	tab.Audit("nothing-left")
	tab.Answer(nil)
	tab.Wait(names + `.endsWith('came_late') && !` + visible("records-notice"))
	tab.Click("#find")
	find("nobody", visible("found-none")+`&& document.activeElement.id === 'found-title'`)
	tab.Audit("not-found")
	find("paid-07", recordTitle+` === 'Event paid-07' && location.search === '?resource=event&id=paid-07'`)
	find("customer-03", recordTitle+` === 'Entity customer-03' && document.getElementById('record-events-count').textContent === '(14)'`)
	// The page exports the events of an entity as a CSV file.
	next := tab.DownloadInto(t.TempDir())
	tab.Click("#record-events-actions button")
	tab.Wait(`document.querySelector('#exports [data-status=succeeded]')`)
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
	tab.Wait(`document.getElementById('record-message').textContent.startsWith('This is not an id: an id must be 1 to 128')`)

	tab.Open(s.url + "/dashboard?page=2") // a link that someone shared has a page number but no cursors
	tab.Wait(names + `.endsWith('came_late') && document.getElementById('records-page').textContent === 'Page 2'`)
	tab.Open(s.url + "/dashboard?entity_id=ada%40")
	tab.Wait(`document.getElementById('records-error').textContent.startsWith('Entity id must be') && document.querySelectorAll('#records > li').length === 0`)
	tab.Open(s.url + "/dashboard?from=2026-02-02T00:00:00Z&to=2026-01-01T00:00:00Z")
	tab.Wait(`document.getElementById('records-error').textContent === 'From must be earlier than Before.' && document.querySelector('#records-from[aria-invalid]')`)
	tab.Audit("wrong-filter")

	tab.Open(s.url + "/dashboard?resource=entity&id=customer-03")
	tab.Wait(`document.getElementById('record-events-count').textContent === '(14)'`) // the count moves the elements below, so it must appear before the click
	tab.Click("#erase > summary")
	tab.Click("#erase-id")
	tab.Press("customer-04", kb.Enter)
	tab.Wait(`document.getElementById('erase-error').textContent.startsWith('This is not the id') && document.activeElement.id === 'erase-id'`)
	tab.Audit("erase")
	browsertest.Eval[bool](tab, `(document.getElementById('erase-id').focus(), document.getElementById('erase-id').select()) ?? true`)
	tab.Press("customer-03", kb.Enter)
	tab.Wait(`document.getElementById('erase-state').textContent === 'Erased: the entity and 14 events.'`)
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
		return fmt.Sprintf(`document.querySelector('#records time')?.textContent === %q && document.getElementById('records-from').value === %q && document.querySelector('.zone').textContent === 'Times are in %s.'`, time, from, zone)
	}
	kolkata := "(" + shown("Asia/Kolkata", "Jan 3, 2026, 05:00:00", "2026-01-03T01:30") + "||" + shown("Asia/Calcutta", "Jan 3, 2026, 05:00:00", "2026-01-03T01:30") + ")"
	tab.Wait(kolkata)
	tab.Click("#zones label:has([value=utc])")
	tab.Wait(shown("UTC", "Jan 2, 2026, 23:30:00", "2026-01-02T20:00") + `&& location.search.includes('from=2026-01-02T20')`)
	tab.Open(s.url + "/dashboard?from=2026-01-02T20:00:00Z")
	tab.Wait(shown("UTC", "Jan 2, 2026, 23:30:00", "2026-01-02T20:00"))
	tab.Click("#records-form [data-preset=week]")
	tab.Wait(`document.querySelector('#records-form [data-preset=week]').ariaPressed === 'true' && document.querySelectorAll('#records-form [aria-pressed=true]').length === 1`)
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

// With only the keyboard, a support agent enters the beginning of an email address, finds the
// person's latest events, and then imports a file.
func dashboardWalk(t *testing.T, b *browsertest.Browser) {
	s := startWithImporter(t)
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "--fold"), 0, "", "does the rest while it runs")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "price", "--number"), 0, "", "does the rest while it runs")
	await(t, "ready", func() bool {
		return !slices.ContainsFunc(s.declarations(t), func(d index.Declaration) bool { return d.State != index.Ready })
	})
	c := s.clientAt(t, browserAddress)
	for _, email := range []string{"ada@example.com", "ada@example.org", "grace@example.com"} {
		id := strings.NewReplacer("@", "-", ".", "-").Replace(email)
		c.want(t, http.StatusCreated, "POST", "/create_entity", fmt.Sprintf(`{"id":%q,"type":"person","attributes":{"email":%q}}`, id, email))
	}
	for i := range 11 {
		c.want(t, http.StatusCreated, "POST", "/create_entity", fmt.Sprintf(`{"type":"person","attributes":{"email":"team@%d"}}`, i))
	}
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"called","name":"called","entity_id":"ada-example-org"}`)
	tab := b.Tab(t, browsertest.Tablet)
	to := func(want string) {
		t.Helper()
		tabTo(t, tab, want)
	}
	tab.Open(stalePages(t, s.url) + "/dashboard")
	tab.Wait(textOf("find-hint") + `=== 'The id of an entity or an event, the beginning of a text, in upper or lower case (person email), a number (person price).'`)
	for text, want := range map[string]string{"991": "Nothing found for 991No entity and no event has this id. No entity has it as the beginning of a text, in upper or lower case (person email), a number (person price).", "Team@": "The first 10 records for Team@", "gone@": "Nothing found for gone@The search ended early"} {
		browsertest.Eval[bool](tab, `(document.getElementById('find').focus(), document.getElementById('find').select()) ?? true`)
		tab.Press(text, kb.Enter)
		tab.Wait(`(` + textOf("found-title") + `+` + textOf("found-none") + `).startsWith('` + want + `')`)
	}
	browsertest.Eval[bool](tab, `document.activeElement.blur() ?? true`)
	to("Skip to content")
	to("find")
	tab.Press("ada@", kb.Enter)
	tab.Wait(textOf("found-title") + ` === '2 records for ada@' && document.activeElement.id === 'found-title'`)
	tab.Audit("found")
	to("ada-example-org")
	tab.Press(kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity ada-example-org' && document.activeElement.id === 'record-title' && ` + textOf("record-events-count") + ` === '(1)'`)
	to("Copy as curl")
	tab.Press(kb.Enter)
	tab.Wait(`document.activeElement.textContent.startsWith('Copied')`)
	to("called")
	tab.Press(kb.Enter)
	tab.Wait(recordTitle + ` === 'Event called'`)
	to("record-back")
	tab.Press(kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity ada-example-org' && ` + visible("record-events-part"))
	to("Export these events")
	tab.Press(kb.Enter)
	tab.Wait(`document.querySelector('#exports [data-status=succeeded] .job-filters')?.textContent === 'entity ada-example-org'`)
	to("All events")
	tab.Press(kb.Enter)
	tab.Wait(`location.search === '?resource=event&entity_id=ada-example-org' && ` + names + ` === 'called'`)

	// If only one record matches, the search opens it.
	to("Skip to content") // after the last element, the Tab key continues with the first
	to("find")
	tab.Press("grace@", kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity grace-example-com' && document.activeElement.id === 'record-title'`)
	to("Erase this entity")
	tab.Press(kb.Enter)
	to("erase-id")
	tab.Press("grace-example-com", kb.Enter)
	tab.Wait(textOf("erase-state") + ` === 'Erased: the entity and 0 events.' && document.activeElement.id === 'record-title'`)

	path := filepath.Join(t.TempDir(), "calls.csv")
	userFile(t, path, "name,entity_id,occurred_at,minutes\ncalled,ada-example-org,2026-01-02T03:04:05Z,5\ncalled,ada-example-org,2026-01-02T03:04:05Z,x y\n,ada-example-org,2026-01-02T03:04:05Z,7\n")
	to("import-file")
	tab.Choose("#import-file", path) // pressing Enter would open a system dialog
	tab.Wait(`document.activeElement.id === 'import-title'`)
	to("import-check")
	tab.Press(kb.Enter)
	tab.Wait(visible("import-report") + `&& ` + textOf("import-report-text") + `.startsWith('2 rows can be imported, and 1 would be rejected.')`)
	to("import-start")
	tab.Press(kb.Enter)
	tab.Wait(textOf("import-counts") + ` === '2 new · 0 there already · 1 rejected' && document.activeElement.id === 'import-progress-title'`)
	next := tab.DownloadInto(t.TempDir())
	to("import-progress-download")
	tab.Press(kb.Enter)
	if file := next(); file.Name != "calls.csv.rejects.csv" || !strings.Contains(read(t, file.Path), "\r\n4,\"the record has fields that cannot be accepted; name ") {
		t.Errorf("%s: %s", file.Name, read(t, file.Path))
	}
	to("import-again")
	tab.Press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'import-file'`)
}
