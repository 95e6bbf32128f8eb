package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
)

// retype replaces the text of an input, as a user does who selects it and types.
func retype(tab *browsertest.Tab, selector, text string, then ...string) {
	browsertest.Eval[bool](tab, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true; })()`, selector))
	tab.Press(append([]string{text}, then...)...)
}

// valueOf returns a selector for the input of an attribute.
func valueOf(name string) string { return fmt.Sprintf(`.draft [aria-label="Value of %s"]`, name) }

// Two people edit one record. The second sees both versions, and nothing is lost.
func dashboardEdits(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	c := s.clientAt(t, browserAddress)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"name":"Ada","born":1815.50,"home":{"city":"London","zip":"W1"},"plan":"free","since":null}}`)
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"name":"called","entity_id":"ada"}`)
	stored := func(want string) {
		t.Helper()
		if got := c.want(t, http.StatusOK, "GET", "/entity/ada", "").body; !strings.Contains(got, `"attributes":`+want) {
			t.Errorf("stored %s, want %s", got, want)
		}
	}
	tab, other := b.Tab(t, browsertest.Desktop), b.Tab(t, browsertest.Desktop)
	for _, one := range []*browsertest.Tab{tab, other} {
		one.Open(s.url + "/dashboard?resource=entity&id=ada")
		one.Wait(visible("record-edit") + ` && ` + visible("record-events-part"))
		one.Click(`[aria-label="Edit name"]`)
		one.Wait(`document.activeElement.getAttribute('aria-label') === 'Value of name'`)
	}

	// A number that is none is not sent. Then the first change is stored, with the digits of what stays.
	retype(other, valueOf("born"), "old", kb.Enter)
	other.Wait(`document.querySelector('.draft .field-error')?.textContent.startsWith('born is not a number')`)
	other.Audit("record-edit")
	retype(other, valueOf("born"), "1815.50")
	retype(other, valueOf("name"), "Ada Lovelace")
	retype(other, valueOf("plan"), "pro", kb.Enter)
	other.Wait(`document.getElementById('saved')?.textContent.includes('name: Ada → Ada Lovelace')`)
	stored(`{"name":"Ada Lovelace","born":1815.50,"home":{"city":"London","zip":"W1"},"plan":"pro","since":null}`)
	other.Audit("record-saved")

	// The second change does not overwrite the first. The user chooses.
	retype(tab, valueOf("name"), "Countess", kb.Enter)
	tab.Wait(visible("conflict") + `&& document.activeElement.id === 'conflict-title'`)
	const shown = `[...document.querySelectorAll('#conflict tbody tr')].map((tr) => [...tr.children].map((cell) => cell.textContent).join('|') + '|' + (tr.querySelector(':checked')?.value ?? '')).join('; ')`
	if got, want := browsertest.Eval[string](tab, shown), "name|Ada Lovelace|Countess|Ada|; plan|pro|free|free|theirs"; got != want {
		t.Errorf("the page shows %s, want %s", got, want)
	}
	tab.Audit("record-412")
	tab.Click("#conflict-save")
	tab.Wait(`document.querySelector('#conflict .field-error').textContent.startsWith('Choose a value')`)
	tab.Click(`#conflict tr:first-child [value=mine]`)
	tab.Click("#conflict-save")
	tab.Wait(`document.getElementById('saved')?.textContent.includes('name: Ada Lovelace → Countess')`)
	stored(`{"name":"Countess","born":1815.50,"home":{"city":"London","zip":"W1"},"plan":"pro","since":null}`)

	tab.Click("#undo")
	tab.Wait(`document.getElementById('saved')?.textContent.startsWith('Undone') && !document.getElementById('undo')`)
	stored(`{"name":"Ada Lovelace","born":1815.50,"home":{"city":"London","zip":"W1"},"plan":"pro","since":null}`)
	changesAttributes(t, tab, stored)

	// Deleting keeps the events, and says so.
	tab.Click("#delete > summary")
	tab.Click("#delete-start")
	tab.Wait(`document.getElementById('record-message')?.textContent.startsWith('Deleted. Its events remain') && ` + names + ` === 'grace'`)
	c.want(t, http.StatusNotFound, "GET", "/entity/ada", "")
	if got := c.want(t, http.StatusOK, "GET", "/event?entity_id=ada", "").body; !strings.Contains(got, `"called"`) {
		t.Errorf("the events are %s", got)
	}
	tab.Audit("record-deleted")
}

// changesAttributes renames, removes and adds attributes, and creates a record.
func changesAttributes(t *testing.T, tab *browsertest.Tab, stored func(want string)) {
	t.Helper()
	tab.Click("#record-edit")
	retype(tab, `.draft:nth-child(1) .name`, "full name")
	browsertest.Eval[bool](tab, `document.querySelector('[aria-label="Remove plan"]').click() ?? true`)
	retype(tab, valueOf("home"), `{"zip":"W2"}`)
	tab.Click("#edit-form .add")
	tab.Press("vip")
	browsertest.Eval[bool](tab, setInput(`[aria-label="Type of vip"]`, "boolean"))
	browsertest.Eval[bool](tab, setInput(valueOf("vip"), "true")+` && document.querySelector('`+valueOf("vip")+`').dispatchEvent(new Event('input', { bubbles: true }))`)
	tab.Click("#edit-save")
	tab.Wait(`document.getElementById('saved')?.textContent.includes('vip: no such attribute → true')`)
	stored(`{"born":1815.50,"home":{"zip":"W2"},"since":null,"full name":"Ada Lovelace","vip":true}`)

	tab.Click("#new-record")
	tab.Wait(`document.activeElement.id === 'create-type'`)
	tab.Press("person")
	tab.Click("#create-id")
	tab.Press("grace")
	tab.Audit("record-new")
	tab.Press(kb.Enter)
	tab.Wait(`document.getElementById('record-title')?.textContent === 'Entity grace' && ` + names + ` === 'grace ada'`)
	browsertest.Eval[bool](tab, `[...document.querySelectorAll('#records th a')].at(-1).click() ?? true`)
	tab.Wait(`document.getElementById('record-title')?.textContent === 'Entity ada' && ` + visible("delete"))
}
