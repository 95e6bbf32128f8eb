package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
	"sluice/internal/test/secrettest"
)

// signIn opens a page of the dashboard with a key, of which only the scopes matter.
func signIn(tab *browsertest.Tab, s *server, query, key string) {
	tab.Open(s.url + "/dashboard" + query)
	tab.Wait(`document.activeElement.id === 'key'`)
	tab.Press(key, kb.Enter)
	tab.Wait(visible("nav-admin"))
}

const secretShown = `document.getElementById('secret')?.open`

const gapTitle = `document.querySelector('.view:not([hidden]) #admin-gap strong')?.textContent`

// Each view of administration says what is missing, and what to do.
func dashboardAdminIsMissing(t *testing.T, b *browsertest.Browser) {
	off := start(t, t.TempDir())
	tab := b.Tab(t, browsertest.Desktop)
	for _, view := range []string{"keys", "limits"} {
		tab.Open(off.url + "/dashboard?view=" + view)
		tab.Wait(gapTitle + ` === 'Administration over HTTP is off' && document.getElementById('admin-gap').textContent.includes('AUTH_MODE=api-key ADMIN_ROUTES=on sluice serve')`)
	}
	tab.Audit("admin-off")

	open := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on"})
	tab.Open(open.url + "/dashboard?view=keys")
	tab.Wait(visible("keys-off") + ` && ` + visible("keys-empty"))
	tab.Audit("keys-off")

	keyed := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key"})
	other := b.Tab(t, browsertest.Desktop)
	signIn(other, keyed, "?view=keys", createKey(t, keyed.env, "--scope", "dashboard"))
	other.Wait(gapTitle + ` === 'This needs a key with the scope admin'`)
	other.Audit("admin-scope")
	other.Click("#about-summary")
	other.Click("#sign-out")
	signIn(other, keyed, "?view=keys", createKey(t, keyed.env, "--scope", "dashboard,admin"))
	other.Wait(`document.querySelectorAll('#keys-table tbody tr').length === 2 && !document.getElementById('keys-workspace')`)
	other.Click("#tab-limits")
	other.Wait(gapTitle + ` === 'This needs a key with the scopes admin and operator'`)
}

// Every state of the views of keys and limits is accessible, and shows what was stored.
func dashboardAdministers(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key"})
	operator := createKey(t, s.env, "--workspace", "ops", "--name", "console", "--scope", "dashboard,admin,operator,import,export")
	tab := b.Tab(t, browsertest.Desktop)
	signIn(tab, s, "?view=limits", operator)
	tab.Wait(visible("plans-empty") + ` && ` + visible("rows-empty"))
	tab.Audit("limits-empty")
	c := s.clientAt(t, browserAddress)
	set := func(path, body string) (made struct{ ID, Key string }) {
		t.Helper()
		r := c.check(t, "POST", path, body, "Authorization", "Bearer "+operator, "Content-Type", "application/json")
		if r.status != http.StatusOK && r.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		if path == "/create_api_key" {
			if err := json.Unmarshal([]byte(r.body), &made); err != nil {
				t.Fatal(err)
			}
			secrettest.Keep(made.Key)
		}
		return made
	}
	set("/set_limit", `{"plan":"trial","records":50,"records_per_month":1000,"imports_per_day":3,"note":"free"}`)
	set("/set_limit", `{"plan":"pro","records":1000,"imports":400,"records_per_month":5000000,"export_jobs":true,"note":"99 a month"}`)
	set("/set_limit", `{"cidr":"192.0.2.0/24","action":"block","note":"scrapes","expires_at":"2036-01-01T00:00:00Z"}`)
	for i, customer := range []string{"acme", "globex", "initech", "umbrella"} {
		set("/create_api_key", fmt.Sprintf(`{"workspace":%q,"name":"%s, contract %d","scopes":["import","export","dashboard"],"plan":%q}`, customer, strings.ToUpper(customer), 1042+i, []string{"pro", "trial"}[i%2]))
	}
	maker := set("/create_api_key", `{"workspace":"hooli","name":"HOOLI admin","scopes":["admin","dashboard","export"],"plan":"pro"}`)
	for _, name := range []string{"report", "mobile app"} {
		if r := c.check(t, "POST", "/create_api_key", fmt.Sprintf(`{"name":%q,"scopes":["export"]}`, name), "Authorization", "Bearer "+maker.Key, "Content-Type", "application/json"); r.status != http.StatusCreated {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	set("/set_limit", fmt.Sprintf(`{"key_id":%q,"records":2000}`, maker.ID))

	tab.Open(s.url + "/dashboard?view=keys&new=key")
	tab.Wait(visible("new-plan"))
	browsertest.Eval[bool](tab, `(document.getElementById('new-plan').value = '*', document.getElementById('new-plan').dispatchEvent(new Event('change', { bubbles: true })))`)
	tab.Click("#new-plan-name")
	tab.Press("Pro!", kb.Enter)
	tab.Wait(`document.querySelector('#new-key-form [role=alert]')`)
	tab.Audit("new-key-faults")
	tab.Click("#tab-limits")
	tab.Wait(`document.querySelectorAll('#plans-table tbody tr').length === 2 && document.querySelectorAll('#rows-table tbody tr').length === 2`)
	tab.Audit("limits")
	tab.Click("#plans-table tbody a[href*='plan%3Apro']")
	tab.Wait(`document.getElementById('limit-records_per_month')?.value === '5000000' && document.activeElement.id === 'row-sheet-title'`)
	tab.Click("#row-remove summary")
	tab.Click("#row-remove button")
	tab.Wait(`document.querySelector('#row-remove [role=alert]')?.textContent.includes('Keys have the plan')`)
	tab.Audit("plan-in-use")
	tab.Open(s.url + "/dashboard?view=limits&id=plan:gone")
	tab.Wait(visible("row-missing"))
	tab.Open(s.url + "/dashboard?view=limits&new=address")
	tab.Wait(visible("row-name"))
	tab.Click("#row-name")
	tab.Press("192.0.2.1/24", kb.Enter)
	tab.Wait(`document.querySelector('#row-form [role=alert]')?.textContent.includes('192.0.2.0/24')`)
	tab.Audit("limit-faults")

	tab.Open(s.url + "/dashboard?view=keys")
	tab.Wait(`document.querySelectorAll('#keys-table tbody tr').length === 8`)
	tab.Audit("keys")
	tab.Open(s.url + "/dashboard?view=keys&id=" + maker.ID)
	tab.Wait(visible("key-made"))
	tab.Click("#revoke summary")
	tab.Audit("open-key")
	tab.Open(s.url + "/dashboard?view=keys&workspace=acme")
	tab.Wait(`document.querySelectorAll('#keys-table tbody tr').length === 1 && document.getElementById('keys-workspace').value === 'acme'`)
	tab.Open(s.url + "/dashboard?view=keys&id=nobody")
	tab.Wait(visible("key-missing"))
}

// After its dialog, a secret is neither on the page, in its memory or storage, nor in its URL, and
// the commands that the dialog shows work.
func dashboardForgetsTheSecret(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key"})
	tab := b.Tab(t, browsertest.Desktop)
	signIn(tab, s, "?view=keys&new=key", createKey(t, s.env, "--scope", "dashboard,admin,operator,import,export"))
	tab.Wait(visible("new-workspace"))
	tab.Click("#new-workspace")
	tab.Press("acme", kb.Enter)
	tab.Wait(secretShown)
	secret := browsertest.Eval[string](tab, textOf("secret-key"))
	secrettest.Keep(secret)
	tab.Audit("secret")
	command := browsertest.Eval[string](tab, `document.querySelectorAll('#secret code')[1].textContent`)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl ", "curl -sS ", 1)).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), `{"data":[`) {
		t.Errorf("%s: %v: %s", strings.ReplaceAll(command, secret, "…"), err, out)
	}
	if !strings.Contains(tab.Heap(), secret) {
		t.Error("a snapshot of the heap does not show what the page has")
	}
	tab.Press(kb.Escape)
	tab.Wait(secretShown) // the key has not been copied
	tab.Click("#secret-close")
	tab.Wait(`!` + secretShown + ` && document.querySelectorAll('#keys-table tbody tr').length === 2`)
	for name, text := range map[string]string{"the page": browsertest.Eval[string](tab, everything), "the heap": tab.Heap()} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s has the secret: %s…", name, strings.ReplaceAll(text[max(0, i-200):i], secret, "…"))
		}
	}
}

// With only the keyboard, an operator takes in a customer, changes the plan, revokes a key with those
// that it made, declares an index and finds with it, and reads who did what.
func operatorWalk(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "ADMIN_ROUTES=on", "AUTH_MODE=api-key", "LIMITS_MAX_AGE=1s"})
	c := s.clientAt(t, browserAddress)
	tab := b.Tab(t, browsertest.Desktop)
	w := &keyWalk{t: t, tab: tab}
	operator := createKey(t, s.env, "--name", "console", "--scope", "dashboard,admin,operator,import,export")
	signIn(tab, s, "", operator)
	tab.Wait(visible("records-empty"))
	w.begin()

	w.view("nav-admin")
	tab.Wait(visible("new-key"))
	w.to("new-key")
	w.press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'new-key-sheet-title'`)
	w.to("new-workspace")
	w.press("acme", kb.Tab, "a") // the first letter of "a new plan"
	tab.Wait(visible("new-plan-name"))
	w.press(kb.Tab, "trial")
	w.to("limit-records_per_month")
	w.press("1000")
	w.to("new-name")
	w.press("ACME, contract 1042")
	w.to("make-key")
	w.press(kb.Enter)
	tab.Wait(secretShown)
	key := browsertest.Eval[string](tab, textOf("secret-key"))
	secrettest.Keep(key)
	w.to("secret-close")
	w.press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'keys-title' && document.querySelectorAll('#keys-table tbody tr').length === 2`)
	w.did("new customer")

	await(t, "a key with its plan", func() bool {
		r := c.check(t, "GET", "/event", "", "Authorization", "Bearer "+key)
		return r.status == http.StatusOK && strings.Contains(r.header.Get("RateLimit-Policy"), `"records-month";q=1000;`)
	})
	w.begin()
	w.to("tab-limits")
	w.press(kb.Enter)
	tab.Wait(visible("plans-table"))
	w.to("trial")
	w.press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'row-sheet-title'`)
	w.to("limit-records_per_month")
	w.press("5000", kb.Enter) // the Tab key selects what a field has
	tab.Wait(`document.activeElement.id === 'plans-title' && document.getElementById('plans-table').textContent.includes('5,000')`)
	w.did("change the plan")

	maker := createKey(t, s.env, "--workspace", "hooli", "--name", "HOOLI", "--scope", "admin,export")
	for range 2 {
		if r := c.check(t, "POST", "/create_api_key", `{"scopes":["export"]}`, "Authorization", "Bearer "+maker, "Content-Type", "application/json"); r.status != http.StatusCreated {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	w.begin()
	w.to("tab-keys")
	w.press(kb.Enter)
	tab.Wait(`document.querySelectorAll('#keys-table tbody tr').length === 5`)
	w.to("HOOLI")
	w.press(kb.Enter)
	tab.Wait(`document.activeElement.id === 'open-key-title'`)
	w.to("Revoke this key")
	w.press(kb.Enter)
	w.to("revoke-key")
	w.press(kb.Enter)
	tab.Wait(`document.querySelectorAll('#keys-table tbody tr').length === 2 && document.activeElement.id === 'open-key-title'`)
	w.did("revoke a key and two it made")
	administers(t, s, operator)("/create_entity", `{"id":"ada","type":"person","attributes":{"email":"ada@example.com"}}`)
	indexAndTrailWalk(w)
}
