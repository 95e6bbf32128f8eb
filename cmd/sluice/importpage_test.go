package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"sluice/cmd/sluice/internal/importer"
	"sluice/internal/test/browsertest"
	"sluice/pkg/client"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// textOf returns a JavaScript expression for the text of an element.
func textOf(id string) string { return fmt.Sprintf("document.getElementById(%q).textContent", id) }

// builtImporter builds the dashboard's importer, unless it is up to date, and returns its directory.
var builtImporter = sync.OnceValues(func() (dir string, err error) {
	make := exec.Command("make", "--no-print-directory", "importer")
	make.Dir = "../.."
	if out, err := make.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make importer: %w: %s", err, out)
	}
	return filepath.Abs("../../pkg/dashboard/built")
})

// startWithImporter starts a server whose dashboard can import files.
func startWithImporter(t *testing.T, env ...string) *server {
	t.Helper()
	dir, err := builtImporter()
	if err != nil {
		t.Fatal(err)
	}
	return startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, env...), "--importer", dir)
}

// Before anything is sent, the user chooses how the cells of each column are converted, and the
// page lists the rows that the service would reject.
func dashboardImports(t *testing.T, b *browsertest.Browser) {
	s := startWithImporter(t)
	dir := t.TempDir()
	people := filepath.Join(dir, "people.csv")
	userFile(t, people, "\ufeffid;type;attributes.email;born;zip;internal\r\n"+
		"ada;person;ada@example.com;1815;\"00501\";x\r\n"+
		"grace;person;\"grace \"\"G\"\" hopper;\r\nsecond line\";1906;;x\r\n"+
		"bad;person;\"a\"b;1;1;x\r\n"+
		"short;person\r\n"+
		"'=formula;person;'=1+1;-1.50;'{};x\r\n")
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=import")
	tab.Wait(visible("import-file"))
	tab.Audit("import-choose")
	tab.Choose("#import-file", people)
	tab.Wait(visible("import-setup") + `&& document.activeElement.id === 'import-title' && ` + textOf("import-written") + `.endsWith(': CSV, Semicolon, Double quotes, UTF-8')`)
	if got := browsertest.Eval[string](tab, `[...document.querySelectorAll('#import-columns tbody tr')].map((r) => r.querySelector('th').textContent + ' ' + r.querySelector('select').value + ' ' + r.querySelector('input').value).join(', ')`); got != "id id , type type , attributes.email attribute email, born attribute born, zip attribute zip, internal attribute internal" {
		t.Errorf("the columns become %s", got)
	}
	browsertest.Eval[bool](tab, `(() => { const s = document.querySelector('[data-column="5"][data-part=role]'); s.value = 'out'; return s.dispatchEvent(new Event('change', { bubbles: true })); })()`)
	tab.Audit("import-columns")
	tab.Click("#import-check")
	tab.Wait(visible("import-report") + `&& ` + textOf("import-report-text") + `.startsWith('2 rows can be imported, and 3 would be rejected.')`)
	reasons := browsertest.Eval[[]string](tab, `[...document.querySelectorAll('#import-report-rejects li')].map((r) => r.querySelector('strong').textContent + ', ' + r.querySelector('code').textContent.slice(0, 6) + ': ' + r.querySelector('span').textContent)`)
	for i, want := range []string{"1 row, Line 5: Text follows the closing", "1 row, Line 6: The row has 2 cells, but the header has 6", "1 row, Line 7: Id \"=formula\" has the character '='"} {
		if i >= len(reasons) || !strings.HasPrefix(reasons[i], want) {
			t.Errorf("reasons are %q, want number %d to be %s", reasons, i, want)
		}
	}
	tab.Audit("import-checked")
	c := s.client(t)
	c.want(t, http.StatusNotFound, "GET", "/entity/ada", "")
	tab.Click("#import-start")
	tab.Wait(textOf("import-progress-title") + ` === 'Imported' && ` + textOf("import-counts") + ` === '2 new · 0 updated or there already · 3 rejected'`)
	tab.Audit("import-rejected")
	for id, want := range map[string]string{"ada": `{"email":"ada@example.com","born":1815,"zip":"00501"}`, "grace": `{"email":"grace \"G\" hopper;\r\nsecond line","born":1906}`} {
		if got := c.want(t, http.StatusOK, "GET", "/entity/"+id, "").body; !strings.Contains(got, want) {
			t.Errorf("%s is stored as %s, want %s", id, got, want)
		}
	}
	next := tab.DownloadInto(t.TempDir())
	tab.Click("#import-progress-download")
	rejects, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(read(t, next().Path), "\ufeff"))).ReadAll()
	if err != nil || len(rejects) != 4 || rejects[1][0] != "5" || rejects[3][2] != "'=formula;person;'=1+1;-1.50;'{};x" {
		t.Errorf("the download is %q, %v", rejects, err)
	}

	// Numbers in NDJSON keep all their digits. Importing the same file again stores nothing twice.
	visits := filepath.Join(dir, "visits.ndjson")
	userFile(t, visits, `{"name":"visit","entity_id":"ada","attributes":{"n":1.50,"big":12345678901234567890},"created_at":"2026-01-01T00:00:00.000Z"}`+"\n\n"+`{"name":"visit","entity_id":"ada","occurred_at":"2026-02-30T00:00:00Z"}`+"\n[]\n")
	for _, want := range []string{"1 new · 0 there already · 2 rejected", "0 new · 1 there already · 2 rejected"} {
		tab.Click("#import-again")
		tab.Choose("#import-file", visits)
		tab.Click("#import-now")
		tab.Click("#import-check")
		tab.Click("#import-start")
		tab.Wait(textOf("import-progress-title") + ` === 'Imported' && ` + textOf("import-counts") + ` === '` + want + `'`)
	}
	if got := c.want(t, http.StatusOK, "GET", "/event?entity_id=ada", "").body; !strings.Contains(got, `{"n":1.50,"big":12345678901234567890}`) || strings.Count(got, `"visit"`) != 1 {
		t.Errorf("stored %s", got)
	}
	tab.Click("#import-again")
	mirrorsFile(t, tab, c, dir)
}

// mirrorsFile imports a list of changes, once as the user describes it, and once with the description
// that this saves.
func mirrorsFile(t *testing.T, tab *browsertest.Tab, c *caller, dir string) {
	t.Helper()
	changes := filepath.Join(dir, "changes.ndjson")
	userFile(t, changes, `{"id":"ada","type":"person","attributes":{"plan":null},"revision":2}`+"\n"+
		`{"id":"grace","type":"person","deleted":true,"deleted_at":"2026-01-02T15:04:05.678Z","erased":true}`+"\n"+
		`{"id":"ada-2","deleted":true,"reason":"filter"}`+"\n")
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"ada-2"}`)
	tab.Choose("#import-file", changes)
	tab.Wait(visible("import-mirror"))
	tab.Click("#import-mirror")
	tab.Wait(`['id', 'type', 'attributes', 'out', 'deleted', 'out', 'out', 'reason'].every((role, i) => document.querySelector('[data-column="' + i + '"][data-part=role]').value === role) && ` + visible("import-type"))
	tab.Audit("import-mirror")
	tab.Click("#import-check")
	tab.Wait(visible("import-report") + `&& ` + textOf("import-report-notes") + `.includes('delete their entity: 1; that create or replace a whole one: 1')`)
	tab.Wait(textOf("import-report-rejects") + `.includes('has left the filter')`)
	tab.Click("#import-change")
	browsertest.Eval[bool](tab, setInput("#import-type", "person"))
	next := tab.DownloadInto(t.TempDir())
	tab.Click("#import-save")
	saved := next().Path
	for range 2 {
		tab.Click("#import-check")
		tab.Wait(visible("import-report") + `&& ` + textOf("import-report-notes") + `.includes('delete their entity: 2; that create or replace a whole one: 1')`)
		tab.Click("#import-start")
		tab.Wait(textOf("import-progress-title") + ` === 'Imported' && ` + textOf("import-counts") + ` === '0 new · 1 updated or there already · 2 deleted · 0 rejected'`)
		for _, id := range []string{"grace", "ada-2"} {
			c.want(t, http.StatusNotFound, "GET", "/entity/"+id, "")
		}
		if got := c.want(t, http.StatusOK, "GET", "/entity/ada", "").body; !strings.Contains(got, `"attributes":{"plan":null}`) {
			t.Errorf("stored %s", got)
		}
		c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"grace"}`)
		tab.Click("#import-again")
		tab.Choose("#import-file", changes)
		tab.Wait(visible("import-setup"))
		tab.Choose("#import-saved", saved)
		tab.Wait(`document.getElementById('import-mirror').checked && document.getElementById('import-type').value === 'person'`)
	}
}

// Without the importer, the page says so.
func dashboardWithoutImporter(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir(), "--importer", t.TempDir())
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=import")
	tab.Wait(visible("import-missing") + `&& !(` + visible("import-choose") + `)`)
	tab.Audit("import-missing")
}

// largeFile writes a CSV file of n rows with a byte order mark, CRLF, quotes, and line breaks in
// cells. A tenth of the rows have no id, some reuse the id of an earlier row, and one is not UTF-8.
func largeFile(t *testing.T, path string, n int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("\ufeffid,name,entity_id,occurred_at,attributes.note,attributes.amount\r\n")
	for i := range n {
		of := i // number of the record in this row
		if i%1000 == 7 {
			of-- // the same record as in the row before
		}
		id, note := fmt.Sprint("e", of), fmt.Sprintf("\"line %d\r\nsays \"\"é\"\", twice\"", of)
		switch {
		case i%10 == 3:
			id = ""
		case i%1000 == 8: // a different record with the id from two rows earlier
			id = fmt.Sprint("e", i-2)
		case i == n/2:
			note = "caf\xe9"
		}
		fmt.Fprintf(&b, "%s,visit,customer-%d,2026-01-02T03:04:05Z,%s,%d.50\r\n", id, of%50, note, of)
	}
	userFile(t, path, b.String())
}

// contents returns the events of a service in a fixed order, without created_at and without the
// ids that the import created for rows that had none.
func contents(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	for e, err := range c.Events(t.Context(), client.EventQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, contentOf(t, e))
	}
	slices.Sort(all)
	return all
}

// The page is closed while it imports a large file. When the file is chosen again, the service
// ends up with what "sluice import" would have stored. The environment variable IMPORT_ROWS
// sets the number of rows.
func dashboardImportsAgain(t *testing.T, b *browsertest.Browser) {
	n := 4000
	if rows := os.Getenv("IMPORT_ROWS"); rows != "" {
		var err error
		if n, err = strconv.Atoi(rows); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "visits.csv")
	largeFile(t, path, n)
	byPage := startWithImporter(t, unlimited...)
	byCommand := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
	var want importer.Result
	out, err := sluiceCommand(t, byCommand.url, "import", "events", "--json", path).Output()
	if wrong := json.Unmarshal(out, &want); wrong != nil {
		t.Fatalf("%v: %s", err, out)
	}

	tab := b.Tab(t, browsertest.Desktop)
	begin := func() {
		t.Helper()
		tab.Open(byPage.url + "/dashboard?view=import")
		tab.Wait(visible("import-file"))
		tab.Choose("#import-file", path)
		tab.Click("#import-check")
		tab.Wait(visible("import-report") + `&& ` + textOf("import-report-text") + `.startsWith((` + fmt.Sprint(n-1) + `).toLocaleString('en') + ' rows can be imported, and 1 would be rejected.')`)
		tab.Press(kb.Tab) // moves the focus away from the heading
		tab.Click("#import-start")
	}
	begin()
	tab.Wait(textOf("import-counts") + `.match(/^([1-9],\d\d\d|\d\d,\d\d\d) new/)`)
	tab.Open("about:blank")
	begin()
	tab.Wait(textOf("import-progress-title") + ` === 'Imported'`)
	var created, existing, rejected int64
	if _, err := fmt.Sscanf(strings.ReplaceAll(browsertest.Eval[string](tab, textOf("import-counts")), ",", ""), "%d new · %d there already · %d rejected", &created, &existing, &rejected); err != nil {
		t.Fatal(err)
	}
	t.Logf("after the page was closed: %d new, %d there already, %d rejected; sluice import: %+v", created, existing, rejected, want.Counts)
	if created == 0 || created == want.Created || created+existing != want.Created+want.Existing || rejected != want.Rejected {
		t.Errorf("the page counted %d new, %d there already and %d rejected, sluice import %+v", created, existing, rejected, want.Counts)
	}
	got, wanted := contents(t, newClient(t, byPage.url)), contents(t, newClient(t, byCommand.url))
	if !slices.Equal(got, wanted) || int64(len(got)) != want.Created {
		t.Errorf("the page stored %d events, sluice import %d", len(got), len(wanted))
	}
}

func contentOf(t *testing.T, e event.Event) string {
	t.Helper()
	if strings.Contains(e.ID, "-") { // the import created this id: ids in the file have no hyphen
		e.ID = ""
	}
	e.CreatedAt = record.Time{}
	b, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func userFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
