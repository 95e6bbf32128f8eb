package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
)

// keyWalk counts the keys that somebody presses.
type keyWalk struct {
	t     *testing.T
	tab   *browsertest.Tab
	keys  int
	since time.Time
}

func (w *keyWalk) press(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		w.keys += utf8.RuneCountInString(key)
	}
	w.tab.Press(keys...)
}

// shortcut presses a key that the page handles.
func (w *keyWalk) shortcut(key string) {
	w.t.Helper()
	w.keys++
	w.tab.Shortcut(key)
}

// to presses the Tab key until the focus is on an element, named as by focusOf.
func (w *keyWalk) to(want string) {
	w.t.Helper()
	for range 120 {
		if strings.HasPrefix(focusOf(w.tab), want) {
			return
		}
		w.press(kb.Tab)
	}
	w.t.Fatalf("the Tab key never leads to %s", want)
}

// view opens a view from anywhere: the search box, the account, and the views follow one another.
func (w *keyWalk) view(id string) {
	w.t.Helper()
	w.shortcut("/")
	w.to(id)
	w.press(kb.Enter)
}

// begin starts to count the keys and the time of a step.
func (w *keyWalk) begin() { w.keys, w.since = 0, time.Now() }

// did logs how many keys and how long a step took.
func (w *keyWalk) did(step string) {
	w.t.Logf("%-28s %3d keys, %.1f s", step, w.keys, time.Since(w.since).Seconds())
	w.begin()
}

// With only the keyboard, a support person finds somebody by a part of an address, corrects a value,
// notes that as an event, imports three corrections, exports the orders of last week, erases
// somebody else, and signs out.
func dashboardWalk(t *testing.T, b *browsertest.Browser) {
	s := startWithPeople(t)
	c := s.clientAt(t, browserAddress)
	for _, email := range []string{"ada@example.com", "ada@example.org", "grace@example.com"} {
		id := strings.NewReplacer("@", "-", ".", "-").Replace(email)
		c.want(t, http.StatusCreated, "POST", "/create_entity", fmt.Sprintf(`{"id":%q,"type":"person","attributes":{"email":%q,"plan":"fre"}}`, id, email))
	}
	monday := time.Now().UTC().AddDate(0, 0, -7-int(time.Now().UTC().Weekday()+6)%7).Truncate(24 * time.Hour)
	for i, at := range []time.Time{monday, monday.Add(6 * 24 * time.Hour), monday.AddDate(0, 0, 7)} {
		c.want(t, http.StatusCreated, "POST", "/create_event", fmt.Sprintf(`{"id":"order-%d","name":"order_paid","entity_id":"grace-example-com","occurred_at":%q}`, i, at.Format(time.RFC3339)))
	}
	s.stop(t)
	s = startIn(t, append(s.env, "AUTH_MODE=api-key"), s.args...)
	path := filepath.Join(t.TempDir(), "corrections.csv")
	userFile(t, path, "id,type,attributes.plan\nada-example-com,person,pro\nada-example-org,person,team\ngrace-example-com,person,pro\n")

	tab := b.Tab(t, browsertest.Desktop)
	w := &keyWalk{t: t, tab: tab}
	tab.Open(s.url + "/dashboard")
	tab.Wait(`document.activeElement.id === 'key'`)
	tab.Press(createKey(t, s.env, "--scope", "dashboard,export,import,erase"), kb.Enter)
	tab.Wait(visible("records") + ` && ` + textOf("find-hint") + `.includes('person email')`)
	w.begin()

	w.shortcut("/")
	w.press("ada@", kb.Enter)
	tab.Wait(textOf("found-title") + ` === '2 records for ada@' && document.activeElement.id === 'found-title'`)
	w.to("ada-example-org")
	w.press(kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity ada-example-org' && document.activeElement.id === 'record-title' && ` + visible("add-event"))
	w.did("find by part of an address")

	w.shortcut("e")
	tab.Wait(`document.activeElement.getAttribute('aria-label') === 'Value of email'`)
	w.press(kb.ArrowDown, "free", kb.Enter)
	tab.Wait(`document.getElementById('saved')?.textContent.includes('plan: fre → free') && document.activeElement.id === 'record-title'`)
	w.did("correct a value")

	w.shortcut("n")
	tab.Wait(`document.activeElement.id === 'create-name'`)
	w.press("note", kb.Tab, "text", kb.Tab, kb.Tab, "Plan corrected.", kb.Enter)
	tab.Wait(recordTitle + `.startsWith('Event ') && document.activeElement.id === 'record-title' && document.querySelector('#record-facts a').textContent === 'ada-example-org'`)
	w.did("note it as an event")

	w.view("nav-import")
	tab.Wait(visible("import-file"))
	w.to("import-file")
	tab.Choose("#import-file", path) // Enter would open a dialog of the system
	tab.Wait(`document.activeElement.id === 'import-title'`)
	w.press(kb.Tab, kb.Enter) // Enter in any field checks the file
	tab.Wait(visible("import-report"))
	w.to("import-start")
	w.press(kb.Enter)
	tab.Wait(`document.getElementById('import-counts')?.textContent === '0 new · 3 updated or there already · 0 rejected' && document.activeElement.id === 'import-progress-title'`)
	w.did("import three corrections")

	w.view("nav-exports")
	tab.Wait(visible("exports-empty"))
	w.to("name")
	w.press("order_paid")
	w.to("Last week")
	w.press(kb.Enter)
	w.to("start")
	w.press(kb.Enter)
	tab.Wait(`document.querySelector('#exports [data-status=succeeded] .job-facts')?.textContent.startsWith('2 records')`)
	w.did("export last week's orders")

	w.shortcut("/")
	w.press("grace@", kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity grace-example-com' && document.activeElement.id === 'record-title' && ` + visible("erase"))
	w.to("Erase this entity")
	w.press(kb.Enter)
	w.to("erase-id")
	w.press("grace-example-com", kb.Enter)
	tab.Wait(`document.getElementById('erase-state')?.textContent === 'Erased: the entity and 3 events.' && document.activeElement.id === 'record-title'`)
	w.did("erase")

	w.view("about-summary")
	w.to("sign-out")
	w.press(kb.Enter)
	tab.Wait(visible("key") + ` && document.activeElement.id === 'key'`)
	w.did("sign out")
	if got := browsertest.Eval[string](tab, everything); strings.Contains(got, "example-org") {
		t.Errorf("after signing out, the page has %s", got)
	}
}

// With only the keyboard, an analyst filters the customers by an indexed attribute, chooses the columns,
// and exports a spreadsheet.
func analystWalk(t *testing.T, b *browsertest.Browser) {
	s := startWithPeople(t)
	seedPage(t, s)
	var people []string
	for i := range 40 {
		people = append(people, fmt.Sprintf(`{"id":"p%02d","type":"person","attributes":{"email":"p%02d@%s","price":%d.5,"plan":"pro"}}`, i, i, []string{"example.com", "example.org"}[i%2], i))
	}
	s.clientAt(t, browserAddress).want(t, http.StatusCreated, "POST", "/upsert_entities", `{"entities":[`+strings.Join(people, ",")+`]}`)
	s.stop(t)
	s = startIn(t, append(s.env, "AUTH_MODE=api-key"), s.args...)
	tab := b.Tab(t, browsertest.Desktop)
	w := &keyWalk{t: t, tab: tab}
	signIn(tab, s, "", createKey(t, s.env, "--scope", "dashboard,export"))
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 12 && ` + textOf("find-hint") + `.includes('person email')`)
	w.begin()

	w.to("resource")
	w.press(kb.ArrowRight)
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 25`)
	w.to("Filter")
	w.press(kb.Enter)
	w.to("records-type")
	w.press("person")
	w.to("condition price")
	w.press("12.5", kb.Enter)
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 1`)
	w.press(kb.Enter)
	w.to("operator price")
	w.press("at l")
	w.to("records-show")
	w.press(kb.Enter)
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 25 && document.querySelector('#records tbody th').textContent === 'p12'`)
	w.did("filter")

	w.to("Columns")
	w.press(kb.Enter)
	w.to("attributes.email")
	w.press(" ")
	tab.Wait(`[...document.querySelectorAll('#records thead th')].map((th) => th.textContent).sort().join() === 'Changed,Id,plan,price'`)
	w.press(kb.Escape)
	w.did("choose columns")

	w.view("nav-exports")
	tab.Wait(visible("exports-empty"))
	w.to("export")
	w.press(kb.ArrowRight)
	w.to("format")
	w.press(kb.ArrowRight)
	w.to("type")
	w.press("person", kb.Enter)
	tab.Wait(`document.querySelector('#exports [data-status=succeeded] .job-facts')?.textContent.startsWith('40 records')`)
	download := tab.DownloadInto(t.TempDir())
	w.to("Download")
	w.press(kb.Enter)
	if file := download(); strings.Count(read(t, file.Path), "\r\n") != 41 {
		t.Errorf("the spreadsheet %s has %q", file.Name, read(t, file.Path))
	}
	w.did("export a spreadsheet")
}
