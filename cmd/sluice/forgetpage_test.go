package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
)

// everything is a JavaScript expression for all that the page shows or has stored.
const everything = `(async () => JSON.stringify([
	document.documentElement.outerHTML, [...document.querySelectorAll('input, textarea, select')].map((i) => i.value),
	{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state, location.href,
	await caches.keys(), await indexedDB.databases(),
]))()`

// After an erasure, the person's data is neither on the page nor behind a button, nor in the
// page's memory, its storage or a response. The page names the export files that may still have
// it, and deletes them.
func dashboardForgets(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	secrets := []string{"lovelace-1815", "enchantress-of-number", "somerset-house"} // of the entity, an event, and what was typed to find it
	c := s.clientAt(t, browserAddress)
	order := func(id, rest string) {
		t.Helper()
		c.want(t, http.StatusCreated, "POST", "/create_export_job", fmt.Sprintf(`{"id":%q,"format":"csv",%s}`, id, rest))
		exported(t, newClient(t, s.url), id)
	}
	order("too-early", `"resource":"entity"`)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"name":"lovelace-1815"}}`)
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"called","name":"called","entity_id":"ada","attributes":{"note":"enchantress-of-number"}}`)
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"other","name":"called","entity_id":"bob"}`)
	order("of-all", `"resource":"entity"`)
	order("of-bob", `"resource":"event","filters":{"entity_id":"bob"}`)
	order("of-ada", `"resource":"event","filters":{"entity_id":"ada"}`)

	var mu sync.Mutex
	var bodies strings.Builder // of all responses since the erasure
	proxy := startProxy(t, s.url, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Header.Del("Accept-Encoding")
		seen := httptest.NewRecorder()
		next.ServeHTTP(seen, r)
		mu.Lock()
		if r.URL.Path == "/delete_entity" {
			bodies.Reset()
		}
		bodies.Write(seen.Body.Bytes())
		mu.Unlock()
		maps.Copy(w.Header(), seen.Header())
		w.WriteHeader(seen.Code)
		w.Write(seen.Body.Bytes()) //nolint:errcheck // the browser may have closed the connection
	})
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(proxy + "/dashboard?view=exports")
	tab.Wait(`document.querySelectorAll('#exports > li').length === 4`)
	tab.Click("#nav-records")
	tab.Click("#view-records label:has([value=entity])")
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 1`)
	tab.Click("#find")
	tab.Press("somerset-house")
	tab.Click("#records tbody a")
	tab.Wait(`document.getElementById('record-events-count')?.textContent === '(1)' && document.querySelectorAll('#record-actions button').length === 4`)
	if got := tab.Heap(); !strings.Contains(got, secrets[0]) {
		t.Error("a snapshot of the heap does not show what the page has")
	}
	tab.Click("#erase > summary")
	tab.Click("#erase-id")
	tab.Press("ada", kb.Enter)
	tab.Wait(`document.getElementById('erase-state')?.textContent === 'Erased: the entity and 1 event.' && ` + visible("erase-files-part"))
	check := func() {
		t.Helper()
		shown, heap := browsertest.Eval[string](tab, everything), tab.Heap()
		mu.Lock()
		defer mu.Unlock()
		for name, text := range map[string]string{"the page": shown, "the heap": heap, "a response": bodies.String()} {
			for _, secret := range secrets {
				if i := strings.Index(text, secret); i >= 0 {
					t.Errorf("%s has %s: …%s…", name, secret, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
	}
	check()
	tab.Audit("record-erased")
	if got := browsertest.Eval[string](tab, `[...document.querySelectorAll('#erase-files strong')].map((e) => e.textContent).join('; ')`); got != "Events, CSV; Entities, CSV" {
		t.Errorf("the page names the files %s", got)
	}
	for i, id := range []string{"of-ada", "of-all"} {
		tab.Click("#erase-files button")
		tab.Wait(fmt.Sprintf(`[...document.querySelectorAll('#erase-files .hint')].filter((e) => e.textContent === 'deleted').length === %d`, i+1))
		if r := c.want(t, http.StatusOK, "GET", "/export_job/"+id, ""); strings.Contains(r.body, `"file_deleted_at":null`) {
			t.Errorf("the file is not deleted: %s", r.body)
		}
	}
	tab.Wait(`!document.querySelector('#erase-files button')`)
	tab.Click("#record-back")
	tab.Wait(visible("records-empty") + ` && !` + visible("record"))
	check()
}
