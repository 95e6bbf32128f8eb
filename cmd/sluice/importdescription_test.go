package main

import (
	"archive/zip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/test/browsertest"
	"sluice/pkg/importfile"
)

// zipFile writes an archive with one file.
func zipFile(t *testing.T, path, name, content string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	w, err := archive.Create(name)
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err != nil || archive.Close() != nil || file.Close() != nil {
		t.Fatal(err)
	}
}

// setInput returns an expression that enters a value into an element, as a user does.
func setInput(selector, value string) string {
	return fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; return e.dispatchEvent(new Event('change', { bubbles: true })); })()`, selector, value)
}

// The members of nested objects become fields, which the user names.
func dashboardImportsNestedMembers(t *testing.T, b *browsertest.Browser) {
	s := startWithImporter(t)
	path := filepath.Join(t.TempDir(), "visits.json")
	userFile(t, path, `[{"name":"visit","properties":{"time":1798131600,"page":"/a"}},`+"\n"+`{"name":"visit","properties":{"page":"/b"}}]`)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=import")
	tab.Wait(visible("import-file"))
	tab.Choose("#import-file", path)
	tab.Wait(visible("import-member"))
	browsertest.Eval[bool](tab, `(document.getElementById('import-member').value = 'properties.time') !== ''`)
	tab.Click("#import-member-add")
	browsertest.Eval[bool](tab, setInput(`[data-column="2"][data-part=role]`, "occurred_at"))
	tab.Wait(visible("import-times"))
	browsertest.Eval[bool](tab, setInput("#import-time-formats", "unix"))
	tab.Audit("import-nested")
	tab.Click("#import-check")
	tab.Wait(visible("import-report") + `&& ` + textOf("import-report-text") + `.startsWith('1 row can be imported, and 1 would be rejected.') && ` + textOf("import-report-rejects") + `.includes('Element 2: ')`)
	tab.Click("#import-start")
	tab.Wait(textOf("import-counts") + ` === '1 new · 0 there already · 1 rejected'`)
	if got := s.client(t).want(t, http.StatusOK, "GET", "/event", "").body; !strings.Contains(got, `"occurred_at":"2026-12-24T17:00:00.000Z"`) {
		t.Errorf("stored %s", got)
	}
}

// A file of another program, in a zip archive, is imported with a description that the command has
// saved. The page changes it and saves it again.
func dashboardUsesDescriptions(t *testing.T, b *browsertest.Browser) {
	s := startWithImporter(t)
	dir := t.TempDir()
	orders, saved := filepath.Join(dir, "orders.zip"), filepath.Join(dir, "orders.json")
	zipFile(t, orders, "orders.csv", "Nr;Kunde;Datum;PLZ;Ort\r\n1;k-1;24.12.2026 18:30;02134;K\xf6ln\r\n2;k-2;25.10.2026 02:30;90210;\r\n3;k-2;29.03.2026 02:30;90210;\r\n")
	userFile(t, saved, `{"resource":"event","format":"csv","encoding":"windows-1252","delimiter":";",
		"columns":[{"source":"Nr","field":"id"},{"source":"Kunde","field":"entity_id"},{"source":"Datum","field":"occurred_at"},{"source":"PLZ","field":"attributes.zip","type":"text"}],
		"time_formats":["%d.%m.%Y %H:%M"],"time_zone":"Europe/Berlin","name":"order"}`)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=import")
	tab.Wait(visible("import-file"))
	tab.Choose("#import-file", orders)
	tab.Wait(visible("import-setup"))
	tab.Choose("#import-saved", saved)
	tab.Wait(`document.getElementById('import-name').value === 'order' && document.getElementById('import-time-zone').value === 'Europe/Berlin'`)
	tab.Wait(visible("import-times") + `&& document.querySelector('[data-column="3"][data-part=type]').value === 'text' && document.querySelector('[data-column="3"][data-part=name]').value === 'zip'`)

	// The page says at once what cannot be.
	browsertest.Eval[bool](tab, setInput(`[data-column="4"][data-part=name]`, "zip"))
	tab.Wait(textOf("import-error") + ` === 'Both columns "PLZ" and "Ort" become the field attributes.zip.'`)
	browsertest.Eval[bool](tab, setInput(`[data-column="4"][data-part=name]`, "city"))
	tab.Wait(textOf("import-error") + ` === ''`)
	tab.Click("#import-written")
	tab.Audit("import-described")

	next := tab.DownloadInto(t.TempDir())
	tab.Click("#import-save")
	d, err := importfile.Parse([]byte(read(t, next().Path)))
	if err != nil || d.Columns[4] != (importfile.Column{Source: "Ort", Field: "attributes.city"}) || d.TimeZone != "Europe/Berlin" || d.Encoding != "windows-1252" || d.Columns[3].Type != "text" {
		t.Errorf("the page saved %+v, %v", d, err)
	}

	tab.Click("#import-check")
	tab.Wait(visible("import-report") + `&& ` + textOf("import-report-text") + `.startsWith('2 rows can be imported, and 1 would be rejected.')`)
	if got := browsertest.Eval[string](tab, `document.querySelector('#import-report-rejects li').textContent`); !strings.Contains(got, "Europe/Berlin") || !strings.Contains(got, "Line 4: 3;k-2;29.03.2026 02:30") {
		t.Errorf("rejected: %s", got)
	}
	tab.Click("#import-report summary")
	tab.Audit("import-report-columns")
	tab.Click("#import-start")
	tab.Wait(textOf("import-counts") + ` === '2 new · 0 there already · 1 rejected'`)
	c := s.client(t)
	for id, want := range map[string]string{
		"1": `"name":"order","entity_id":"k-1","occurred_at":"2026-12-24T17:30:00.000Z","attributes":{"zip":"02134","city":"Köln"}`,
		"2": `"occurred_at":"2026-10-25T00:30:00.000Z","attributes":{"zip":"90210"}`,
	} {
		if got := c.want(t, http.StatusOK, "GET", "/event/"+id, "").body; !strings.Contains(got, want) {
			t.Errorf("stored %s, want %s", got, want)
		}
	}
}
