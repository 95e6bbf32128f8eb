package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
	"sluice/pkg/index"
)

// administers sends changes with a key.
func administers(t *testing.T, s *server, key string) (change func(path, body string)) {
	c := s.clientAt(t, browserAddress)
	return func(path, body string) {
		t.Helper()
		r := c.check(t, "POST", path, body, "Authorization", "Bearer "+key, "Content-Type", "application/json")
		if r.status != http.StatusOK && r.status != http.StatusCreated {
			t.Fatalf("%s %s: %d %s", path, body, r.status, r.body)
		}
	}
}

// indexIn is an index as GET /entity_index shows it.
func indexIn(typ, state string, done float64, attributes ...map[string]any) map[string]any {
	x := map[string]any{"resource": "entity", "type": typ, "state": state, "done": done, "attributes": attributes}
	if typ == "" {
		x["resource"] = "event"
		delete(x, "type")
	}
	return x
}

func attributeIn(name, valueType string, fold bool) map[string]any {
	return map[string]any{"name": name, "value_type": valueType, "fold": fold}
}

// Whoever may read sees the indexes, and what is missing to change them.
func dashboardShowsIndexes(t *testing.T, b *browsertest.Browser) {
	dir := t.TempDir()
	s := start(t, dir)
	tab := b.Tab(t, browsertest.Desktop)
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "--fold"), 0, "", "")
	await(t, "ready", func() bool { return s.declarations(t)[0].State == index.Ready })
	tab.Open(s.url + "/dashboard?view=indexes")
	tab.Wait(`document.querySelector('#indexes-table [data-state=ready]') && ` + gapTitle + ` === 'Administration over HTTP is off' && !document.getElementById('new-index')`)
	tab.Audit("indexes-off")

	keyed := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key"})
	other := b.Tab(t, browsertest.Desktop)
	signIn(other, keyed, "?view=indexes", createKey(t, keyed.env, "--scope", "dashboard,export"))
	other.Wait(visible("indexes-empty") + ` && ` + gapTitle + ` === 'Declaring and removing indexes needs a key with the scope admin'`)
	other.Audit("indexes-scope")
	other.Click("#tab-audit")
	other.Wait(gapTitle + ` === 'This needs a key with the scope admin'`)
	other.Audit("trail-scope")
	other.Click("#about-summary")
	other.Click("#sign-out")
	signIn(other, keyed, "?view=indexes", createKey(t, keyed.env, "--scope", "dashboard,admin"))
	other.Wait(gapTitle + ` === 'This needs a key with the scopes admin and export'`)
}

// Somebody declares an index, watches until it is ready, finds by it, and removes it.
func dashboardDeclaresIndexes(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on"})
	c := s.clientAt(t, browserAddress)
	c.want(t, http.StatusCreated, "POST", "/upsert_entities", `{"entities":[{"id":"b","type":"person","attributes":{"email":"Bo@example.com"}},{"id":"a","type":"person","attributes":{"email":"ida@example.com"}}]}`)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=indexes")
	tab.Wait(visible("indexes-empty"))
	tab.Audit("indexes-empty")
	tab.Click("#new-index")
	tab.Wait(`document.activeElement.id === 'new-index-sheet-title'`)
	tab.Click("#add-attribute")
	tab.Click("#add-attribute")
	tab.Click("#declare")
	tab.Wait(`document.getElementById('index-type-error').textContent && document.activeElement.id === 'index-type' && !document.getElementById('add-attribute')`)
	tab.Audit("new-index-faults")
	tab.Press("person")
	tab.Click("[aria-label='Remove Attribute 3']")
	tab.Click("[aria-label='Remove Attribute 2']")
	tab.Wait(`document.activeElement.id === 'index-name-0'`)
	tab.Press("email", kb.Tab, kb.Tab, " ", kb.Enter)
	tab.Wait(`location.search === '?view=indexes&id=person.email' && document.activeElement.id === 'open-index-title'`)
	tab.Wait(visible("index-records") + ` && ` + textOf("find-hint") + `.includes('in upper or lower case (person email)')`) // it is ready
	tab.Audit("index-ready")
	tab.Click("#index-records")
	tab.Wait(`location.search === '?resource=entity&type=person&order=attributes.email' && ` + names + ` === 'b a'`)
	tab.Shortcut("/")
	tab.Press("BO@", kb.Enter)
	tab.Wait(recordTitle + ` === 'Entity b'`)

	tab.Open(s.url + "/dashboard?view=indexes&new=index")
	tab.Wait(visible("index-type"))
	tab.Click("#new-index-form label:has([value=event])")
	tab.Wait(`!document.getElementById('index-type')`)
	tab.Click("#declare")
	tab.Wait(`document.querySelectorAll('#indexes-table [data-state=ready]').length === 2`)
	tab.Open(s.url + "/dashboard?view=indexes&new=index")
	tab.Wait(visible("index-type"))
	tab.Click("#index-type")
	tab.Press("person", kb.Tab, "email", kb.Enter)
	tab.Wait(`document.querySelector('#new-index-form [role=alert]')?.textContent.includes('case')`) // the other one ignores it
	tab.Audit("new-index-conflict")

	tab.Open(s.url + "/dashboard?view=indexes")
	tab.Wait(visible("indexes-table"))
	browsertest.Eval[bool](tab, `[...document.querySelectorAll('#indexes-table th a')].find((a) => a.textContent === 'person.email').click() ?? true`)
	tab.Click("#index-remove summary")
	tab.Audit("index-remove")
	tab.Click("#index-remove button")
	tab.Wait(visible("index-missing") + ` && document.querySelectorAll('#indexes-table tbody tr').length === 1 && !` + textOf("find-hint") + `.includes('email')`)

	tab.Answer(answers{"/entity_index": jobPage(
		indexIn("", "ready", 1, attributeIn("name", "text", false)), indexIn("invoice", "removing", 0, attributeIn("number", "number", false)),
		indexIn("order", "building", 0.42, attributeIn("status", "text", true), attributeIn("paid", "boolean", false), attributeIn("total", "number", false)),
		indexIn("person", "ready", 1, attributeIn("email", "text", true)), indexIn("person", "writing", 0, attributeIn("born", "number", false)),
	)})
	tab.Open(s.url + "/dashboard?view=indexes&id=order.status%2Bpaid%2Btotal")
	tab.Wait(`document.querySelectorAll('#indexes-table tbody tr').length === 5 && document.querySelector('#open-index progress').value === 0.42`)
	tab.Audit("indexes")
	tab.Answer(answers{"/entity_index": problem(500, "internal_error", "the service failed")})
	tab.Open(s.url + "/dashboard?view=indexes")
	tab.Wait(visible("indexes-notice"))
	tab.Audit("indexes-error")
}

// changeRows is a list of what the rows of the audit trail say that was done.
const changeRows = `[...document.querySelectorAll('#trail-table tbody tr')].map((row) => row.cells[2].textContent).join()`

// The trail is filtered by person, thing and workspace, read page by page, and shows what was there
// before and after a change.
func dashboardReadsTheTrail(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key"})
	operator := createKey(t, s.env, "--workspace", "ops", "--name", "console", "--scope", "dashboard,admin,operator,export")
	change := administers(t, s, operator)
	for i := range 51 { // more than a page
		change("/set_limit", fmt.Sprintf(`{"cidr":"192.0.2.%d/32","records":5}`, i))
	}
	change("/set_limit", `{"plan":"pro","records":1000,"note":"99 a month"}`)
	change("/set_limit", `{"plan":"pro","records":2000,"imports":20,"note":"99 a month"}`)
	wantRun(t, inEnv(t, s.env, "keys", "create", "--workspace", "acme", "--scope", "export", "--plan", "pro"), 0, "", "")
	change("/create_entity_index", `{"workspace":"acme","type":"person","attributes":[{"name":"email"}]}`)
	tab := b.Tab(t, browsertest.Desktop)
	signIn(tab, s, "?view=audit", operator)
	tab.Wait(textOf("trail-title") + ` === '50 changes of more' && ` + changeRows + `.startsWith('declared an index,made a key,changed a plan,made a plan,made a limit,')`)
	tab.Audit("trail")
	tab.Click("#trail-older")
	tab.Wait(textOf("trail-title") + ` === '56 changes' && !document.getElementById('trail-older') && document.activeElement.closest('tr').rowIndex === 51`)

	tab.Click("#trail-by")
	tab.Press("command:", kb.Enter)
	tab.Wait(changeRows + ` === 'made a key,made a key' && document.activeElement.id === 'trail-title' && location.search === '?view=audit&by=command%3A'`)
	tab.Click("#trail-all")
	tab.Wait(textOf("trail-title") + ` === '50 changes of more' && document.getElementById('trail-by').value === ''`)
	follow := func(text, until string) {
		t.Helper()
		browsertest.Eval[bool](tab, fmt.Sprintf(`[...document.querySelectorAll('#trail-table td a')].find((a) => a.textContent === %q).click() ?? true`, text))
		tab.Wait(until)
	}
	follow("acme", changeRows+` === 'declared an index,made a key' && document.getElementById('trail-workspace').value === 'acme'`)
	tab.Click("#trail-all")
	tab.Wait(textOf("trail-title") + ` === '50 changes of more'`)
	follow("plan:pro", changeRows+` === 'changed a plan,made a plan' && document.getElementById('trail-thing').value === 'plan:pro' && document.activeElement.id === 'trail-title'`)
	tab.Press(kb.Tab, kb.Tab, kb.Enter) // the table, and the first change
	tab.Wait(`document.activeElement.id === 'open-change-title' && document.activeElement.textContent === 'Changed a plan'`)
	const fields = `[...document.querySelectorAll('#changed tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join(' ')).join()`
	tab.Wait(fields + `.includes('records 1000 2000,imports – 20') && !` + fields + `.includes('99 a month') && document.querySelector('#open-change summary').textContent.endsWith('fields as before')`)
	tab.Click("#open-change summary")
	tab.Audit("open-change")
	tab.Press(kb.Escape)
	tab.Wait(`!document.getElementById('open-change') && document.activeElement.closest('tr').rowIndex === 1`) // from where it was opened
	tab.Press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'open-change-title'`)
	tab.Do(chromedp.Reload())
	tab.Wait(fields + `.includes('records 1000 2000') && document.activeElement.id === 'open-change-title'`)
	tab.Press(kb.Escape)
	tab.Wait(`document.activeElement.id === 'title-audit' && location.search === '?view=audit&thing=plan%3Apro'`)
	tab.Click("[aria-label='Open plan:pro']")
	tab.Wait(`location.search === '?view=limits&id=plan%3Apro' && document.getElementById('limit-records')?.value === '2000'`)

	tab.Open(s.url + "/dashboard?view=audit&by=nobody&id=none")
	tab.Wait(visible("trail-empty") + ` && ` + visible("change-missing"))
	tab.Audit("trail-empty")
	tab.Answer(answers{"/audit": jobPage(
		changeIn("3", "set-limit", "failed", "key:7m3kq2xw9abc", map[string]any{"key_id": "7m3kq2xw9abc", "records": 5}, nil, "the table has no room for another row"),
		changeIn("2", "create-api-key", "intended", "key:2b7xk9mq4def", nil, nil, ""),
		changeIn("1", "revoke-api-key", "done", "key:7m3kq2xw9abc", map[string]any{"id": "7m3kq2xw9abc", "name": "n\u202e", "scopes": []string{"export"}, "status": "valid", "revoked_at": nil},
			map[string]any{"id": "7m3kq2xw9abc", "name": "n\u202e", "scopes": []string{"export"}, "status": "revoked", "revoked_at": "2026-01-27T12:00:00.000Z", "made": []map[string]any{{"id": "2b7xk9mq4def", "name": strings.Repeat("long ", 40)}}}, ""),
	)})
	for id, name := range map[string]string{"1": "change-revoked", "2": "change-intended", "3": "change-failed"} {
		tab.Open(s.url + "/dashboard?view=audit&id=" + id)
		tab.Wait(visible("open-change"))
		tab.Audit(name)
	}
	tab.Answer(answers{"/audit": problem(http.StatusNotFound, "no_such_route", "there is no such route")})
	tab.Open(s.url + "/dashboard?view=audit")
	tab.Wait(gapTitle + ` === 'Administration over HTTP is off'`)
	tab.Audit("trail-off")

	open := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on"})
	tab = b.Tab(t, browsertest.Phone)
	tab.Open(open.url + "/dashboard?view=audit")
	tab.Wait(visible("keys-off") + ` && ` + visible("trail-empty"))
	tab.Audit("trail-keys-off")
}

// indexAndTrailWalk declares an index, finds with it, and reads who changed plans.
func indexAndTrailWalk(w *keyWalk) {
	w.begin()
	w.to("tab-indexes")
	w.press(kb.Enter)
	w.tab.Wait(visible("new-index"))
	w.to("new-index")
	w.press(kb.Enter)
	w.tab.Wait(`document.activeElement.id === 'new-index-sheet-title'`)
	w.to("index-type")
	w.press("person", kb.Tab, "email", kb.Enter)
	w.tab.Wait(visible("index-records"))
	w.shortcut("/")
	w.press("ada@", kb.Enter)
	w.tab.Wait(recordTitle + ` === 'Entity ada'`)
	w.did("declare an index, find by it")

	w.view("nav-admin")
	w.tab.Wait(visible("keys-table"))
	w.to("tab-audit")
	w.press(kb.Enter)
	w.tab.Wait(visible("trail-table"))
	w.to("trail-thing")
	w.press("plan:", kb.Enter)
	w.tab.Wait(changeRows + ` === 'changed a plan,made a plan'`)
	w.press(kb.Tab, kb.Tab, kb.Enter)
	w.tab.Wait(`document.getElementById('changed')?.textContent.includes('records_per_month10005000')`)
	w.did("read who changed a plan")
}

func changeIn(id, action, result, of string, old, now any, failure string) map[string]any {
	r := map[string]any{"id": id, "at": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339), "workspace": "acme", "by": "command:ada", "from": "build-7.example.com", "action": action, "of": of, "old": old, "new": now, "result": result}
	if failure != "" {
		r["error"] = failure
	}
	return r
}
