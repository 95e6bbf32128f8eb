package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"sluice/internal/browsertest"
)

// The tests of the dashboard run the page in Chromium against `sluice serve`.
// The browser's address is 127.0.0.1.
const browserAddress = "127.0.0.1"

// answers stand in for those of the server, by path.
type answers = map[string]browsertest.Answer

// jobPage is a page of the list of export jobs.
func jobPage(list ...map[string]any) browsertest.Answer {
	if list == nil {
		list = []map[string]any{}
	}
	return browsertest.Answer{Status: http.StatusOK, Body: map[string]any{"data": list, "next_cursor": nil}}
}

// fakeJob is an export job that was created some time ago.
func fakeJob(id, resource, format, status string, ago time.Duration, change map[string]any) map[string]any {
	at := time.Now().UTC().Add(-ago).Format(time.RFC3339Nano)
	j := map[string]any{
		"id": id, "resource": resource, "format": format, "filters": map[string]any{}, "status": status,
		"records_written": 0, "records_expected": nil, "size_bytes": nil, "created_at": at, "started_at": at, "finished_at": at,
		"download_url": nil, "error": nil,
	}
	maps.Copy(j, change)
	return j
}

func problem(status int64, code, detail string) browsertest.Answer {
	return browsertest.Answer{Status: status, Header: map[string]string{"Retry-After": "1"}, Body: map[string]any{
		"type": "about:blank", "title": "", "status": status, "detail": detail, "code": code,
	}}
}

// visible is a JavaScript expression: the element of that id can be seen.
func visible(id string) string {
	return fmt.Sprintf("document.getElementById(%q)?.offsetParent", id)
}

// seedPage creates the records that the page shows, as the browser's address.
func seedPage(t *testing.T, s *server) {
	t.Helper()
	c := s.clientAt(t, browserAddress)
	for i := range 12 {
		c.create(t, "/create_event", fmt.Sprintf(`{"name":"order_paid","entity_id":"customer-%d","attributes":{"amount":%d.50,"currency":"EUR","reference":12345678901234567890}}`, i, i*7))
		c.create(t, "/create_entity", fmt.Sprintf(`{"id":"customer-%02d","type":"customer","attributes":{"plan":"pro","seats":%d}}`, i, i))
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	for name, test := range map[string]func(*testing.T, *browsertest.Browser){
		"every state is without barriers":       dashboardStates,
		"records are shown as they are":         dashboardShowsRecords,
		"a limit that is used up is waited out": dashboardWaitsOutALimit,
		"another address can be looked at":      dashboardShowsAnotherAddress,
		"polling is polite":                     dashboardPollsPolitely,
		"50,000 events are exported":            dashboardExports,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

func dashboardStates(t *testing.T, b *browsertest.Browser) {
	for name, viewport := range map[string]browsertest.Viewport{"": browsertest.Desktop, "phone-": browsertest.Phone} {
		t.Run(name+"states", func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir())
			tab := b.Tab(t, viewport)
			open := func(a answers, until string) {
				t.Helper()
				tab.Answer(a)
				tab.Open(s.url + "/dashboard")
				tab.Wait(until)
			}

			open(answers{"/export_job": jobPage()}, visible("exports-empty")+"&&"+visible("records-empty"))
			tab.Audit(name + "empty")

			seedPage(t, s)
			expired := fakeJob("g", "event", "ndjson", "succeeded", 400*time.Hour, map[string]any{"records_written": 50000, "size_bytes": 4_234_567})
			open(answers{"/export_job/g": {Status: http.StatusOK, Body: expired}, "/export_job": jobPage(
				fakeJob("a", "event", "csv", "queued", time.Second, map[string]any{"filters": map[string]any{"entity_id": "customer-7"}}),
				fakeJob("b", "event", "ndjson", "running", 8*time.Second, map[string]any{"records_written": 18400, "records_expected": 50000,
					"filters": map[string]any{"from": "2026-11-01T00:00:00.000Z", "to": "2026-11-21T00:00:00.000Z"}}),
				fakeJob("c", "entity", "ndjson", "running", 20*time.Second, map[string]any{"records_written": 3100}),
				fakeJob("d", "entity", "csv", "succeeded", time.Hour, map[string]any{"records_written": 12043, "size_bytes": 1_234_567, "filters": map[string]any{"type": "customer"}}),
				fakeJob("e", "event", "ndjson", "failed", 3*time.Hour, map[string]any{"records_written": 900, "error": "the file could not be written; start the export again"}),
				fakeJob("f", "event", "ndjson", "cancelled", 4*time.Hour, map[string]any{"records_written": 21000}),
				expired,
			)}, `document.querySelectorAll('#exports > li').length === 7 && document.querySelectorAll('#records > li').length === 10`)
			tab.Click("[data-id=g] button")
			tab.Wait(`document.querySelector('[data-id=g] button').textContent.startsWith('Export again')`)
			tab.Audit(name + "exports")

			tab.Click("#new-export label:has([value=csv])")
			tab.Click("#new-export label:has([value=entity])")
			tab.Click("#records-kind label:has([value=entity])")
			tab.Click("#usage-details summary")
			tab.Wait(`document.querySelector('#records strong')?.textContent === 'customer-00' && document.querySelectorAll('#usage-table tbody tr').length === 60`)
			tab.Click("#records li:first-child summary")
			tab.Audit(name + "details")

			open(answers{"/export_job": problem(500, "internal_error", "the service failed"), "/event": problem(403, "missing_scope", "the key lacks the scope export")},
				visible("exports-notice")+"&&"+visible("records-empty"))
			tab.Audit(name + "partly-failed")

			open(answers{"/usage": problem(401, "no_valid_key", "a key is needed")}, visible("key"))
			tab.Audit(name + "sign-in")
			tab.Press(kb.Enter)
			tab.Wait(`document.getElementById('key-error').textContent === 'Enter an API key.'`)

			open(answers{"/usage": problem(403, "missing_scope", "the key lacks the scope dashboard")}, visible("key"))
			tab.Audit(name + "forbidden")

			open(answers{"/usage": problem(503, "rate_limiter_unavailable", "the rate limit could not be checked, so nothing was done; try again")}, visible("loading"))
			tab.Audit(name + "loading")
			tab.Wait(visible("unreachable"))
			tab.Audit(name + "unreachable")
			tab.Answer(nil)
			tab.Click("#unreachable-retry")
			tab.Wait(visible("usage-charts"))
		})
	}
}

// Numbers come to the page with all their digits.
func dashboardShowsRecords(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	seedPage(t, s)
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard")
	tab.Wait(`document.querySelectorAll('#records > li').length === 10`)
	want := `{"amount":77.50,"currency":"EUR","reference":12345678901234567890}`
	if got := browsertest.Eval[string](tab, `document.querySelector('#records code').textContent`); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The page waits while the limit of its address is used up, says so, and goes
// on by itself.
func dashboardWaitsOutALimit(t *testing.T, b *browsertest.Browser) {
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "LIMIT_REQUESTS=30"})
	tab := b.Tab(t, browsertest.Desktop)
	tab.Answer(answers{"/export_job": jobPage()})
	tab.Open(s.url + "/dashboard")
	tab.Wait(visible("usage-charts"))

	c := s.clientAt(t, browserAddress)
	flood := func(stop <-chan struct{}) {
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.do(t, "GET", "/usage", "")
			case <-stop:
				return
			}
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { flood(stop) })
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end()
	tab.Wait(visible("usage-notice") + `?.textContent.includes('limit is used up')`)
	tab.Audit("limited")
	end()
	tab.Wait("!(" + visible("usage-notice") + ")")
	tab.Wait(`document.querySelector('#usage-routes .chart-full')`)
	tab.Audit("limit-reached")
}

func dashboardShowsAnotherAddress(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	seed(t, s, 3)
	c := s.client(t)
	for range 3 {
		c.want(t, http.StatusOK, "GET", "/entity?limit=3", "")
	}
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard")
	tab.Wait(visible("usage-charts"))
	show := func(address string) {
		t.Helper()
		browsertest.Eval[bool](tab, `document.getElementById('address').select() ?? true`)
		tab.Click("#address")
		browsertest.Eval[bool](tab, `document.getElementById('address').select() ?? true`)
		tab.Press(address, kb.Enter)
	}
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
	tab.Click("#usage-own")
	tab.Wait(`document.querySelector('#usage-routes')?.textContent.includes('dashboard') && document.getElementById('address').value === '127.0.0.1'`)
}

// The poller is polite, by its own clock: what it would wait is noted instead.
func dashboardPollsPolitely(t *testing.T, b *browsertest.Browser) {
	s := start(t, t.TempDir())
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/nowhere") // has no timers of its own
	run := func(script string) []float64 {
		t.Helper()
		return browsertest.Eval[[]float64](tab, `(async () => {
			const { Poller } = await import('`+s.url+`/dashboard/poll.js');
			const { ApiError } = await import('`+s.url+`/dashboard/api.js');
			const waits = [];
			const realTimeout = globalThis.realTimeout ??= globalThis.setTimeout;
			const settle = () => new Promise((resolve) => realTimeout(resolve, 50));
			globalThis.setTimeout = (f, wait) => { waits.push(wait); if (waits.length < 20) queueMicrotask(f); };
			const hide = (hidden) => {
				Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
				document.dispatchEvent(new Event('visibilitychange'));
			};
			let stopped = 0;
			const report = (r) => { stopped += Boolean(r.stopped); };
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
		const nearlyOut = async () => ({ remaining: 0.05, reset: Date.now() + 700 });
		new Poller(nearlyOut, () => 1, report).start();
		await settle();
		return waits.slice(0, 1);`); len(waits) != 1 || waits[0] < 600 || waits[0] > 1700 {
		t.Errorf("with little left: %v, want the time to the reset and up to a second", waits)
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

// undetected builds the program without the detector of data races, which makes
// large imports seven times as slow. The other tests have it.
func undetected(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// imported is an event that is imported, as its JSON begins.
func imported(i int) string {
	at := time.Date(2026, 1, 2, 0, 0, i, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf(`{"id":"evt-%05d","name":"order_paid","entity_id":"customer-%d","occurred_at":"%s","attributes":{"amount":%d.50,"currency":"EUR","number":%d}`, i, i%97, at, i%1000, i)
}

// importEvents imports events 0 to n-1 from several addresses.
func importEvents(t *testing.T, s *server, n int) {
	t.Helper()
	const size = 100
	next := make(chan int)
	go func() {
		defer close(next)
		for i := 0; i < n; i += size {
			next <- i
		}
	}()
	var wg sync.WaitGroup
	for range 8 {
		c := s.client(t)
		wg.Go(func() {
			for first := range next {
				events := make([]string, 0, size)
				for i := first; i < min(first+size, n); i++ {
					events = append(events, imported(i)+"}")
				}
				c.create(t, "/create_events", `{"events":[`+strings.Join(events, ",")+`]}`)
			}
		})
	}
	wg.Wait()
}

// Fifty thousand events are imported, exported through the page, and read out
// of the file that the browser downloads.
func dashboardExports(t *testing.T, b *browsertest.Browser) {
	const n = 50_000
	dir := t.TempDir()
	s := startProgram(t, undetected(t), []string{"DATA_DIR=" + dir})
	importEvents(t, s, n)
	s.stop(t)
	s = start(t, dir)

	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/dashboard")
	download := tab.DownloadInto(t.TempDir())
	tab.Wait(visible("start"))
	browsertest.Eval[bool](tab, `(() => {
		globalThis.seen = [];
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
	between := 0
	for i, v := range seen {
		if v > 0 && v < 100 {
			between++
		}
		if i > 0 && v < seen[i-1] {
			t.Errorf("the progress bar went back from %v to %v", seen[i-1], v)
		}
	}
	// Without the detector of data races the export may be over in no time.
	if between < 2 && len(buildFlags) > 0 {
		t.Errorf("the progress bar was seen to move %d times between its ends, want 2", between)
	}

	tab.Click("#exports [data-status=succeeded] button")
	file, err := os.Open(download())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	unzip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzip)
	found := make(map[string]string, n)
	for lines.Scan() {
		line := lines.Text()
		content, created, _ := strings.Cut(line, `,"created_at":"`)
		if id := line[:len(`{"id":"evt-00000"`)]; found[id] != "" {
			t.Errorf("%s is there again", id)
		} else {
			found[id] = content
		}
		if _, err := time.Parse(time.RFC3339, strings.TrimSuffix(created, `"}`)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(found) != n {
		t.Errorf("the file has %d events, want %d", len(found), n)
	}
	for i := range n {
		want := imported(i)
		if got := found[want[:len(`{"id":"evt-00000"`)]]; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}
