package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sluice/internal/test/browsertest"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// browserAddress is the address from which Chromium sends its requests.
const browserAddress = "127.0.0.1"

// answers maps request paths to responses that replace those of the server.
type answers = map[string]browsertest.Answer

func jobPage(list ...map[string]any) browsertest.Answer {
	if list == nil {
		list = []map[string]any{}
	}
	return browsertest.Answer{Status: http.StatusOK, Body: map[string]any{"data": list, "next_cursor": nil}}
}

func fakeJob(id, resource, format, status string, age time.Duration, overrides map[string]any) map[string]any {
	at := time.Now().UTC().Add(-age).Format(time.RFC3339Nano)
	j := map[string]any{
		"id": id, "resource": resource, "format": format, "filters": map[string]any{}, "status": status,
		"records_written": 0, "records_expected": nil, "size_bytes": nil, "created_at": at, "started_at": at, "finished_at": at,
		"download_url": nil, "error": nil,
	}
	maps.Copy(j, overrides)
	return j
}

func problem(status int64, code, detail string) browsertest.Answer {
	return browsertest.Answer{Status: status, Header: map[string]string{"Retry-After": "1"}, Body: map[string]any{
		"type": "about:blank", "title": "", "status": status, "detail": detail, "code": code,
	}}
}

// busyMinute returns the usage of an address that reads, imports and reaches its limits.
func busyMinute() browsertest.Answer {
	var seconds []map[string]any
	now := time.Now().Unix()
	for i := range 60 {
		wave := func(period, shift, height int) int {
			up := (i + shift) % period
			return min(up, period-up) * 2 * height / period
		}
		reads, imports := wave(24, 5, 150), min(200, max(0, wave(40, 12, 420)-60))
		seconds = append(seconds, map[string]any{"second": now - 59 + int64(i), "records": min(200, reads+wave(7, 0, 70)), "imports": imports,
			"requests": map[string]int{"list-event": 1 + reads/50, "get-entity": 1 + wave(7, 0, 70), "create-event": 1 + imports*3/4, "create-events": 1 + imports/4}})
	}
	return browsertest.Answer{Status: http.StatusOK, Body: map[string]any{
		"counted": "address:203.0.113.7", "address": "203.0.113.7", "action": "limit", "limit": 200, "limits": map[string]any{"records": 200, "imports": 200, "requests": 200}, "seconds": seconds,
		"caller": map[string]any{"workspace": "acme", "key_id": "k3y9f2m7q4xz", "scopes": []string{"dashboard", "export", "import"}},
	}}
}

// visible returns a JavaScript expression that is truthy if the element with this id is visible.
func visible(id string) string {
	return fmt.Sprintf("document.getElementById(%q)?.offsetParent", id)
}

func seedPage(t *testing.T, s *server) {
	t.Helper()
	var events []event.Draft
	var entities []entity.Draft
	for i := range 12 {
		events = append(events, event.Draft{Name: "order_paid", EntityID: fmt.Sprintf("customer-%02d", i%5), Attributes: record.Attributes(fmt.Sprintf(`{"amount":%d.50,"currency":"EUR","reference":12345678901234567890}`, i*7))})
	}
	first, last := strings.Fields("Ada Grace Alan Edsger Barbara Donald Katherine"), strings.Fields("Lovelace Hopper Turing Dijkstra Liskov Knuth Johnson Hamilton Perlman")
	for i := range 25 {
		name := first[i%len(first)] + " " + last[i%len(last)]
		entities = append(entities, entity.Draft{ID: fmt.Sprintf("customer-%02d", i), Type: "customer", Attributes: record.Attributes(fmt.Sprintf(
			`{"name":%q,"email":%q,"plan":%q,"seats":%d,"balance":%d.%02d,"active":%t,"since":"2026-%02d-%02dT09:30:00Z"}`,
			name, strings.ToLower(strings.ReplaceAll(name, " ", "."))+"@example.com", []string{"pro", "free", "team"}[i%3], 1+i*i%37, i*i*i*7%900, i*37%100, i%4 != 3, 1+i%10, 1+i))})
	}
	c := newClient(t, s.url)
	_, err := c.CreateEvents(t.Context(), events)
	if err == nil {
		_, err = c.UpsertEntities(t.Context(), entities)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser){
		"every state is accessible":                   dashboardStates,
		"users find records":                          dashboardFinds,
		"two people edit one record":                  dashboardEdits,
		"nothing is left after an erasure":            dashboardForgets,
		"users import files":                          dashboardImports,
		"an import goes on after the page was closed": dashboardImportsAgain,
		"users pause and cancel imports":              dashboardPausesImports,
		"a build without importer says so":            dashboardWithoutImporter,
		"users describe files":                        dashboardUsesDescriptions,
		"users import nested members":                 dashboardImportsNestedMembers,
		"the page reads files as the command does":    dashboardReadsFiles,
		"users find, filter and sort by values":       dashboardFindsByValue,
		"a support person needs only the keyboard":    dashboardWalk,
		"what administration lacks is said":           dashboardAdminIsMissing,
		"operators manage keys and limits":            dashboardAdministers,
		"a secret is shown once":                      dashboardForgetsTheSecret,
		"readers see the indexes":                     dashboardShowsIndexes,
		"users declare and remove indexes":            dashboardDeclaresIndexes,
		"users read the audit trail":                  dashboardReadsTheTrail,
		"an operator needs only the keyboard":         operatorWalk,
		"an analyst needs only the keyboard":          analystWalk,
		"times are in a zone":                         dashboardShowsTimesInAZone,
		"users browse records":                        dashboardBrowses,
		"the page waits while a limit is used up":     dashboardWaitsOutALimit,
		"the page recovers after a service restart":   dashboardOutlivesTheService,
		"the page shows the usage of another address": dashboardShowsAnotherAddress,
		"operators see who uses the most":             dashboardShowsWhoUsesTheMost,
		"polling backs off":                           dashboardPollsPolitely,
		"users sign in and out":                       dashboardSignsIn,
		"the page works with only a keyboard":         dashboardByKeyboard,
		"the page exports 50,000 events":              dashboardExports,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

func dashboardStates(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	tab := b.Tab(t, browsertest.Desktop)
	open := func(query string, a answers, until string) {
		t.Helper()
		tab.Answer(a)
		tab.Open(s.url + "/dashboard" + query)
		tab.Wait(until)
	}

	open("", nil, visible("records-empty"))
	if got, want := browsertest.Eval[string](tab, `document.querySelector('#records-empty code').textContent`), "curl '"+s.url+"/create_event'"; !strings.HasPrefix(got, want) || strings.Contains(got, "Bearer") {
		t.Errorf("the first command is %s, want it to begin with %s", got, want)
	}
	tab.Audit("records-empty")
	open("?view=exports", nil, visible("exports-empty"))
	if got := browsertest.Eval[string](tab, "document.title"); got != "Exports · Sluice" {
		t.Errorf("the title is %s", got)
	}
	tab.Audit("exports-empty")

	seedPage(t, s)
	numbers := `{"huge":1E400,"price":77.50,"reference":12345678901234567890}`
	s.clientAt(t, browserAddress).want(t, http.StatusCreated, "POST", "/create_event", `{"name":"measured","attributes":`+numbers+`}`)
	open("", nil, `document.querySelectorAll('#records tbody tr').length === 13`)
	if got := browsertest.Eval[string](tab, `document.querySelector('#records code').textContent`); got != numbers {
		t.Errorf("%s, want all digits of %s", got, numbers)
	}
	tab.Audit("records")
	open("?resource=entity&type=customer&id=customer-03", nil, `document.querySelectorAll('#records tbody tr').length === 25 && document.querySelectorAll('#record-events li').length === 2`)
	tab.Audit("overview")
	auditExports(t, tab, open)

	open("?view=usage", answers{"/usage": busyMinute()}, `document.querySelector('.chart-full')`)
	tab.Click("#usage-by-route summary")
	tab.Click("#usage-details summary")
	tab.Wait(`document.querySelectorAll('#usage-table tbody tr').length === 60`)
	tab.Audit("usage")
	byKey := busyMinute()
	usage := byKey.Body.(map[string]any)
	usage["counted"] = "key:k3y9f2m7q4xz"
	usage["day"] = map[string]any{"start": "2026-11-27T00:00:00.000Z", "records": 93_400, "imports": 1200, "limits": map[string]any{"records": 100_000, "imports": nil}}
	usage["month"] = map[string]any{"start": "2026-11-01T00:00:00.000Z", "records": 1_400_000, "imports": 21_200, "limits": map[string]any{"records": 2_000_000, "imports": 20_000}}
	open("?view=usage", answers{"/usage": byKey}, `document.getElementById('usage-counted')?.textContent.includes('key k3y9f2m7q4xz, from every address') && document.querySelectorAll('#usage-sums progress').length === 3`)
	if browsertest.Eval[bool](tab, visible("usage-form")+" !== undefined") {
		t.Error("a key without the scope operator can ask for the usage of others")
	}
	if got := browsertest.Eval[string](tab, `document.getElementById('verdict').textContent`); got != "Yes The quota of 20,000 import calls this month is used up." {
		t.Errorf("near the limit: %s", got)
	}
	tab.Audit("usage-of-key")

	open("", answers{"/event": problem(403, "address_blocked", "the operator has blocked your address")}, visible("records-notice"))
	tab.Audit("records-error")
	open("?view=exports", answers{"/export_job": problem(500, "internal_error", "the service failed")}, visible("exports-notice"))
	tab.Audit("exports-error")

	open("", answers{"/usage": problem(401, "no_valid_key", "a key is needed")}, visible("key"))
	tab.Audit("signed-out")
	tab.Press(kb.Enter)
	tab.Wait(`document.getElementById('key-error').textContent === 'Enter an API key.'`)
	open("", answers{"/usage": problem(403, "missing_scope", "the key lacks the scope dashboard")}, visible("key")+` && document.getElementById('key-error').textContent.startsWith('That key lacks')`)
	open("", answers{"/usage": problem(503, "rate_limiter_unavailable", "the rate limit could not be checked, so nothing was done; try again")}, visible("loading"))
	tab.Wait(visible("unreachable"))
	tab.Audit("unreachable")
	tab.Answer(nil)
	tab.Click("#unreachable-retry")
	tab.Wait(visible("nav-usage"))
}

// auditExports shows exports in all states.
func auditExports(t *testing.T, tab *browsertest.Tab, open func(query string, a answers, until string)) {
	t.Helper()
	expired := fakeJob("g", "event", "ndjson", "succeeded", 400*time.Hour, map[string]any{"records_written": 50000, "size_bytes": 4_234_567, "file_expires_at": "2026-01-01T00:00:00.000Z"})
	open("?view=exports", answers{"/export_job": jobPage(
		fakeJob("a", "event", "csv", "queued", time.Second, map[string]any{"started_at": nil, "filters": map[string]any{"entity_id": "customer-7"}}),
		fakeJob("b", "event", "ndjson", "running", 8*time.Second, map[string]any{"records_written": 18400, "records_expected": 50000,
			"filters": map[string]any{"from": "2026-11-01T00:00:00.000Z", "to": "2026-11-21T00:00:00.000Z"}}),
		fakeJob("c", "entity", "ndjson", "running", 20*time.Second, map[string]any{"records_written": 3100}),
		fakeJob("d", "entity", "csv", "succeeded", time.Hour, map[string]any{"records_written": 12043, "size_bytes": 1_234_567, "filters": map[string]any{"type": "customer"}}),
		fakeJob("e", "event", "ndjson", "failed", 3*time.Hour, map[string]any{"records_written": 900, "error": "the file could not be written; start the export again"}),
		fakeJob("f", "event", "ndjson", "cancelled", 4*time.Hour, map[string]any{"records_written": 21000}),
		fakeJob("h", "event", "ndjson", "queued", 5*time.Hour, map[string]any{"records_written": 20_000, "records_expected": 50_000}), // queued again, after a run that wrote 20,000 events
		expired,
	)}, `document.querySelectorAll('#exports > li').length === 8`)
	if got := browsertest.Eval[float64](tab, `document.querySelector('[data-id=h] progress').value`); got != 40 {
		t.Errorf("a job between two runs shows %v %%, want 40", got)
	}
	tab.Wait(`document.querySelector('[data-id=g] button').textContent.startsWith('Export again')`)
	tab.Click("#new-export label:has([value=csv])")
	tab.Click("#new-export label:has([value=entity])")
	tab.Wait(visible("type"))
	tab.Audit("exports")
}

// dashboardRequests counts the browser's requests to the dashboard route in the last minute.
func dashboardRequests(t *testing.T, s *server) (n int) {
	t.Helper()
	usage, err := newClient(t, s.url).Usage(t.Context(), browserAddress)
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range usage.Seconds {
		n += int(second.Requests["dashboard"])
	}
	return n
}

// The page says that a limit is used up, waits, and continues by itself.
func dashboardWaitsOutALimit(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "LIMIT_REQUESTS=30"})
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=usage")
	tab.Wait(visible("verdict"))

	c := s.clientAt(t, browserAddress)
	flood := func(path string) (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for pace := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-pace.C {
					c.do(t, "GET", path, "")
				}
			})
		}
		end = sync.OnceFunc(func() { cancel(); wg.Wait() })
		t.Cleanup(end)
		return end
	}
	end := flood("/usage")
	tab.Wait(visible("usage-notice") + `?.textContent.includes('limit is used up')`)
	tab.Wait(`document.getElementById('verdict-short').textContent === 'Yes'`)
	tab.Audit("nothing-left")
	end()
	tab.Wait("!(" + visible("usage-notice") + ")")
	tab.Wait(`document.querySelector('#usage-charts .chart-full')`)

	// The service sends an error page instead of the dashboard. The error page reloads itself,
	// except after the last try (retry=6).
	end = flood("/dashboard")
	const refused = `document.querySelector('h1')?.textContent.startsWith('The limit of this address is used up') === true`
	open := func(query string) {
		t.Helper()
		for i := 0; ; i++ {
			tab.Open(s.url + "/dashboard" + query)
			if browsertest.Eval[bool](tab, refused) {
				return
			}
			if i == 20 {
				t.Fatal("the service still sends the page, although the limit of its route is used up")
			}
		}
	}
	open("?resource=entity&retry=6")
	tab.Audit("exhausted")
	open("?resource=entity")
	end()
	tab.Wait(visible("nav-usage"))
	tab.Wait(`location.search === '?resource=entity'`)
}

// While the service is down, the page shows one message for all panels. It recovers by itself.
func dashboardOutlivesTheService(t *testing.T, b *browsertest.Browser) {
	dir := t.TempDir()
	s := start(t, dir)
	seedPage(t, s)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=exports")
	tab.Wait(visible("exports-empty"))
	if n := dashboardRequests(t, s); n > 6 {
		t.Errorf("the first load cost %d requests of the route dashboard, want at most 6", n)
	}
	before := dashboardRequests(t, s)
	tab.Do(chromedp.Reload())
	tab.Wait(visible("exports-empty"))
	if n := dashboardRequests(t, s) - before; n != 1 {
		t.Errorf("a reload cost %d requests of the route dashboard, want 1", n)
	}

	tab.Click("#nav-records")
	tab.Wait(`document.querySelectorAll('#records tbody tr').length === 12`)
	s.stop(t)
	tab.Click("#view-records label:has([value=entity])")
	tab.Wait(visible("waiting") + `?.textContent.includes('cannot be reached')`)
	tab.Click("#nav-exports")
	tab.Click("#start")
	tab.Click("#nav-usage")
	tab.Wait(`document.getElementById('verdict-short').textContent === 'Unknown'`)
	if got := browsertest.Eval[int](tab, `[...document.querySelectorAll('.notice')].filter((n) => n.offsetParent).length`); got != 1 {
		t.Errorf("%d notices say that the service is gone, want 1", got)
	}
	tab.Audit("usage-gone")
	startIn(t, []string{"DATA_DIR=" + dir, "ADDR=" + strings.TrimPrefix(s.url, "http://")})
	tab.Wait("!(" + visible("waiting") + ")")
	tab.Click("#nav-exports")
	tab.Wait(`document.querySelector('#exports [data-status=succeeded]')`)
	browsertest.Eval[bool](tab, `history.go(-3) ?? true`)
	tab.Wait(`location.search === '?resource=entity' && document.querySelector('#records strong')?.textContent.startsWith('customer-')`)
}

func dashboardShowsAnotherAddress(t *testing.T, b *browsertest.Browser) {
	dir := t.TempDir()
	runLimits(t, []string{"DATA_DIR=" + dir}, "set", "127.99.99.98", "--action", "observe", "--records", "50")
	s := start(t, dir)
	seed(t, s, 3)
	c := s.client(t)
	for range 3 {
		c.want(t, http.StatusOK, "GET", "/entity?limit=3", "")
	}
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard")
	tab.Click("#nav-usage")
	tab.Wait(visible("usage-charts"))
	show := func(address string) {
		t.Helper()
		browsertest.Eval[bool](tab, `document.getElementById('address').select() ?? true`)
		tab.Click("#address")
		browsertest.Eval[bool](tab, `document.getElementById('address').select() ?? true`)
		tab.Press(address, kb.Enter)
	}
	tab.Click("#usage-by-route summary")
	show(c.address)
	tab.Wait(`document.querySelector('#usage-routes')?.textContent.includes('list-entity') && !document.querySelector('#usage-routes').textContent.includes('dashboard')`)
	if got := browsertest.Eval[string](tab, `document.querySelector('#usage-charts .chart-sum').textContent`); len(got) < 3 || got[:1] != "9" {
		t.Errorf("records read: %s, want 9", got)
	}
	show("nowhere")
	tab.Wait(`document.getElementById('address-error').textContent !== '' && document.activeElement.id === 'address'`)
	tab.Audit("wrong-address")
	show("127.99.99.99")
	tab.Wait(visible("usage-empty"))
	tab.Audit("idle-address")
	show("127.99.99.98")
	tab.Wait(`document.querySelector('#usage-action')?.textContent.includes('observed') && document.querySelector('#usage-charts').textContent.includes('limit 50')`)
	tab.Audit("observed-address")
	show("key:7m3kq2xw9abc")
	tab.Wait(`document.getElementById('usage-counted').textContent.includes('key 7m3kq2xw9abc')`)
	browsertest.Eval[bool](tab, `history.back() ?? true`)
	tab.Wait(`document.querySelector('#usage-action')?.textContent.includes('observed')`)
	browsertest.Eval[bool](tab, `history.back() ?? true`)
	tab.Wait(`location.search === '?view=usage&address=127.99.99.99' && document.getElementById('address').value === '127.99.99.99'`)
	tab.Click("#usage-own")
	tab.Wait(`document.querySelector('#usage-routes')?.textContent.includes('usage') && document.getElementById('address').value === '127.0.0.1'`)
}

// The poller waits after a 429, stops after six 429s in a row, and stops after a single 403. If
// little of a limit is left, it waits until the reset, going by the service's clock. It does
// not poll while the page is hidden. The test records the delays instead of waiting.
func dashboardPollsPolitely(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/nowhere") // a page without timers of its own
	var source strings.Builder
	for _, name := range []string{"format.js", "api.js", "poll.js"} {
		part, err := os.ReadFile("../../pkg/dashboard/page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(part)
	}
	run := func(script string) []float64 {
		t.Helper()
		return browsertest.Eval[[]float64](tab, `(async () => {
			`+source.String()+`
			const waits = [];
			const realTimeout = globalThis.realTimeout ??= globalThis.setTimeout;
			const settle = () => new Promise((resolve) => realTimeout(resolve, 50));
			globalThis.setTimeout = (f, wait) => { waits.push(wait); if (waits.length < 20) queueMicrotask(f); };
			const hide = (hidden) => {
				Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
				document.dispatchEvent(new Event('visibilitychange'));
			};
			let stopped = 0;
			const report = (error, ends) => { stopped += Boolean(ends); };
			`+script+`
		})()`)
	}

	waits := run(`
		const refused = () => { throw new ApiError({ status: 429, retryAfter: 3 }); };
		new Poller(refused, () => 1, report).start();
		await settle();
		return [...waits, stopped];`)
	if len(waits) != 6 || waits[5] != 1 {
		t.Fatalf("waits %v, want five and then a stop", waits)
	}
	for i, low := range []float64{3000, 3000, 4000, 8000, 16000} {
		if waits[i] < low || waits[i] > low+500 {
			t.Errorf("wait %d is %v ms, want %v to %v", i, waits[i], low, low+500)
		}
	}

	if waits := run(`
		const denied = () => { throw new ApiError({ status: 403 }); };
		new Poller(denied, () => 1, report).start();
		await settle();
		return [...waits, stopped];`); len(waits) != 1 || waits[0] != 1 {
		t.Errorf("after a 403: %v, want a stop at once", waits)
	}

	if waits := run(`
		clockOffset = 3_600_000; // the clock of the service is an hour ahead
		const nearlyOut = async () => ({ remaining: 0.05, reset: Date.now() + clockOffset + 700 });
		new Poller(nearlyOut, () => 1, report).start();
		await settle();
		return waits.slice(0, 1);`); len(waits) != 1 || waits[0] < 600 || waits[0] > 1700 {
		t.Errorf("with 0.05 of the limit remaining: wait %v ms, want the time until the reset and at most 1000 ms more", waits)
	}

	if counts := run(`
		let runs = 0;
		const poller = new Poller(async () => { runs++; }, () => 1, report);
		globalThis.setTimeout = (f) => realTimeout(f, 1);
		poller.start();
		await settle();
		hide(true);
		const before = runs;
		await settle();
		const hidden = runs - before;
		hide(false);
		await settle();
		const after = runs - before - hidden;
		poller.stop();
		return [before, hidden, after];`); len(counts) != 3 || counts[0] == 0 || counts[1] != 0 || counts[2] == 0 {
		t.Errorf("runs before, while and after the page was hidden: %v", counts)
	}
}

// The page exports 50,000 events into a file that the browser downloads.
func dashboardExports(t *testing.T, b *browsertest.Browser) {
	const n = 50_000 // enough for several polls during the export
	dir := t.TempDir()
	fillEvents(t, dir, n, 5)
	s := start(t, dir)

	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=exports")
	download := tab.DownloadInto(t.TempDir())
	tab.Wait(visible("start"))
	browsertest.Eval[bool](tab, `(() => {
		globalThis.seen = [];
		const realTimeout = globalThis.setTimeout; // the page polls every second; in this test, it polls every 50 ms, because the export is quick
		globalThis.setTimeout = (f, wait, ...args) => realTimeout(f, wait / 20, ...args);
		new MutationObserver(() => {
			const bar = document.querySelector('#exports progress');
			if (bar?.offsetParent && bar.position >= 0 && bar.value !== seen.at(-1)) seen.push(bar.value);
		}).observe(document.getElementById('exports'), { attributes: true, childList: true, subtree: true });
		return true;
	})()`)
	tab.Click("#start")
	tab.Wait(`document.querySelector('#exports [data-status=succeeded]')`)
	seen := browsertest.Eval[[]float64](tab, "seen")
	t.Logf("the progress bar showed %v", seen)
	back := 0
	for i, v := range seen { // the number of values depends on the machine's speed
		if i > 0 && v < seen[i-1] {
			back++
		}
	}
	if back > 1 { // an export that is not done after its first turn of five seconds writes its last part again
		t.Errorf("the progress bar went back %d times", back)
	}
	tab.Click("#exports [data-status=succeeded] button")
	i := 0
	for line := range strings.Lines(gunzip(t, read(t, download().Path))) {
		if want, err := filledEvent(i, 5).AppendJSON(nil); err != nil || line != string(want)+"\n" {
			t.Fatalf("line %d is %s, want %s, %v", i, line, want, err)
		}
		i++
	}
	if i != n {
		t.Errorf("the file has %d events, want %d", i, n)
	}
}

func dashboardSignsIn(t *testing.T, b *browsertest.Browser) {
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	s := startIn(t, env)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=exports") // the link survives the sign-in
	tab.Wait(visible("key") + ` && document.activeElement.id === 'key'`)
	if browsertest.Eval[bool](tab, `performance.getEntriesByType('resource').some((entry) => entry.name.endsWith('/usage'))`) {
		t.Error("the page sends a request that can only be rejected, because nobody has signed in")
	}
	enter := func(key string) {
		t.Helper()
		tab.Wait(`document.activeElement.id === 'key'`)
		browsertest.Eval[bool](tab, `(document.getElementById('key').value = '') === ''`)
		tab.Press(key, kb.Enter)
	}
	good := createKey(t, env, "--scope", "dashboard", "--scope", "export")
	enter(good[:len(good)-1])
	tab.Wait(`document.getElementById('key-error').textContent.includes('not valid')`)
	tab.Audit("wrong-key")
	enter(createKey(t, env, "--scope", "import", "--scope", "export"))
	tab.Wait(`document.getElementById('key-error').textContent.includes('lacks the scope dashboard')`)

	enter(good)
	tab.Wait(visible("exports-empty"))
	tab.Click("#about-summary")
	tab.Wait(visible("sign-out"))
	if got := browsertest.Eval[string](tab, "document.cookie"); got != "" {
		t.Errorf("scripts can read the cookie: %s", got)
	}
	if got, id := browsertest.Eval[string](tab, "document.getElementById('about').textContent"), strings.Split(good, "_")[1]; !strings.Contains(got, id) || !strings.Contains(got, "default") || !strings.Contains(got, "dashboard, export") {
		t.Errorf("the header says %q of the key %s", got, id)
	}
	if got := browsertest.Eval[string](tab, `document.querySelector('#exports-command code').textContent`); !strings.Contains(got, `-H "Authorization: Bearer $KEY"`) {
		t.Errorf("the first command is %s, want it to send a key", got)
	}
	tab.Audit("signed-in")

	tab.Open(s.url + "/dashboard?view=exports") // the session is still valid
	tab.Wait(visible("exports-empty"))
	tab.Click("#about-summary")
	tab.Click("#sign-out")
	tab.Wait(visible("key"))
	tab.Open(s.url + "/dashboard")
	tab.Wait(visible("key"))

	// With a key that has only the scope dashboard, the page shows only the usage.
	enter(createKey(t, env, "--scope", "dashboard"))
	tab.Wait(visible("verdict") + `&& document.getElementById('hidden-parts').innerText.startsWith('Records and exports are hidden, because this key lacks the scope export')`)
	for _, part := range []string{"new-export", "nav-records", "nav-exports", "find"} {
		if browsertest.Eval[bool](tab, "Boolean("+visible(part)+")") {
			t.Errorf("the page shows %s to a key that cannot use it", part)
		}
	}
	tab.Audit("usage-only")
	tab.Click("#about-summary")
	tab.Click("#sign-out")
	enter(good)
	tab.Wait(visible("nav-exports") + ` && document.getElementById('records-empty').textContent.includes('There are no events yet') && !` + visible("hidden-parts"))
}

// focusOf returns the id, name or text of the element with the keyboard focus.
func focusOf(tab *browsertest.Tab) string {
	return browsertest.Eval[string](tab, `(() => { const a = document.activeElement; return a.id || a.name || a.textContent.trim(); })()`)
}

// tabTo presses the Tab key until the result of focusOf begins with want.
func tabTo(t *testing.T, tab *browsertest.Tab, want string) {
	t.Helper()
	for range 120 {
		if strings.HasPrefix(focusOf(tab), want) {
			return
		}
		tab.Press(kb.Tab)
	}
	t.Fatalf("the Tab key never leads to %s", want)
}

// With only the keyboard, a user can start, download and cancel exports without losing the focus.
func dashboardByKeyboard(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	seedPage(t, s)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard?view=exports")
	tab.Wait(visible("exports-empty"))
	to := func(want string) {
		t.Helper()
		tabTo(t, tab, want)
	}
	tab.Press(kb.Tab)
	if got := focusOf(tab); got != "Skip to content" {
		t.Errorf("the first press of the Tab key leads to %s", got)
	}
	to("export")
	tab.Press(kb.ArrowRight)
	tab.Wait(visible("type") + ` && !` + visible("entity_id"))
	to("type")
	tab.Press("customer")
	to("start")
	tab.Press(kb.Enter)
	tab.Wait(`document.querySelector('#exports [data-status=succeeded]')`)
	if got := focusOf(tab); got != "start" {
		t.Errorf("after the start the focus is on %s", got)
	}
	if got := browsertest.Eval[string](tab, `document.querySelector('#exports .job-facts').textContent`); !strings.HasPrefix(got, "25 records") {
		t.Errorf("exported %s, want 25 records", got)
	}
	download := tab.DownloadInto(t.TempDir())
	to("Download")
	tab.Press(kb.Enter)
	if got, want := download().Name, "entities-customer-"+time.Now().UTC().Format(time.DateOnly)+".ndjson.gz"; got != want {
		t.Errorf("the browser saves the file as %s, want %s", got, want)
	}

	running := fakeJob("x", "event", "ndjson", "running", time.Second, map[string]any{"records_written": 1, "records_expected": 9})
	cancelled := fakeJob("x", "event", "ndjson", "cancelled", time.Second, map[string]any{"records_written": 1})
	for _, byKey := range []bool{true, false} { // if false, the job is cancelled by another client
		tab.Answer(answers{"/export_job": jobPage(running), "/cancel_export_job": {Status: http.StatusOK, Body: cancelled}})
		tab.Open(s.url + "/dashboard?view=exports")
		tab.Wait(`document.querySelector('#exports [data-status=running]')`)
		to("Cancel")
		tab.Answer(answers{"/export_job": jobPage(cancelled), "/cancel_export_job": {Status: http.StatusOK, Body: cancelled}})
		if byKey {
			tab.Press(kb.Enter)
		}
		tab.Wait(`document.querySelector('#exports [data-status=cancelled]')`)
		tab.Wait(`document.activeElement.classList.contains('job-name')`)
		to("Try again")
	}
}
