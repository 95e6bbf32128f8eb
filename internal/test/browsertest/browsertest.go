// Package browsertest controls a headless Chromium: it opens pages, checks their accessibility
// with axe-core, and takes screenshots.
//
// The page runs with its normal security settings. Tests inject axe-core and their own scripts
// through the DevTools protocol, so the page's Content-Security-Policy stays in effect. A
// violation of that policy, or an exception in a script of the page, fails the test.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"sluice/internal/test/child"
)

// patience is how long a test waits for something on a page.
const patience = 60 * time.Second

// Browser is a Chromium process. Each tab has its own cookies and cache.
type Browser struct {
	ctx context.Context
	axe string // source code of axe-core
}

// Start starts a browser for the test. If Chromium or axe-core is missing, the test is
// skipped, or fails if CI is set.
func Start(t *testing.T) *Browser {
	t.Helper()
	const help = "Install Chromium (Debian: apt-get install chromium) and npm, and run: make axe"
	program, err := findChromium()
	child.Require(t, err, help)
	axe, err := os.ReadFile(child.Cached(t, "axe-core/node_modules/axe-core/axe.min.js"))
	child.Require(t, err, help)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.WSURLReadTimeout(patience),
	)
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium refuses to run as root with a sandbox
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		stop()
		stopAllocator()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{ctx: ctx, axe: string(axe)}
}

func findChromium() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Tab is not safe for concurrent use.
type Tab struct {
	t        *testing.T
	browser  *Browser
	ctx      context.Context
	viewport Viewport

	mu      sync.Mutex
	faults  []string          // exceptions in scripts, and errors from the browser's log
	answers map[string]Answer // by path
}

// Viewport is in CSS pixels.
type Viewport struct{ Width, Height int64 }

// Even at a width of 320 pixels, a page must not require scrolling in two directions (WCAG
// 2.2, success criterion 1.4.10).
var (
	Phone   = Viewport{320, 740}
	Tablet  = Viewport{768, 1024}
	Desktop = Viewport{1440, 900}
)

// Tab opens a tab for the test. The test fails if a script of the page throws an exception or
// the browser logs an error, such as a violation of the Content-Security-Policy.
func (b *Browser) Tab(t *testing.T, v Viewport) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	tab := &Tab{t: t, browser: b, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, f := range tab.faults {
			t.Error(f)
		}
	})
	if err := chromedp.Do(ctx); err != nil { // opens the tab, which stays open until ctx is done
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, tab.listen); err != nil {
		t.Fatal(err)
	}
	call(tab, log.Enable, cdp.Empty{})
	tab.Resize(v)
	tab.TimeZone("UTC")
	return tab
}

// TimeZone changes the time zone of the tab, which is initially UTC.
func (tab *Tab) TimeZone(name string) {
	tab.t.Helper()
	call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
}

func (tab *Tab) Resize(v Viewport) {
	tab.t.Helper()
	tab.viewport = v
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width, Height: v.Height, DeviceScaleFactor: 1, Mobile: v.Width < 500})
}

// call runs a command of the DevTools protocol. The test fails if the command fails or times
// out.
func call[P, R any](tab *Tab, command cdp.Command[P, R], params P) R {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		tab.t.Fatalf("%s: %v\n%s", command.Method, err, tab.text())
	}
	return result
}

// listen records exceptions in scripts and errors in the browser's log, except network errors.
// It passes paused requests to tab.answer.
func (tab *Tab) listen(ev any) {
	switch e := ev.(type) {
	case *fetch.EventRequestPaused:
		tab.answer(e)
	case *runtime.EventExceptionThrown:
		tab.fault("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			tab.fault("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
}

func (tab *Tab) fault(format string, args ...any) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.faults = append(tab.faults, fmt.Sprintf(format, args...))
}

func (tab *Tab) text() string {
	ctx, cancel := context.WithTimeout(tab.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// Do runs actions in order. The test fails if an action fails or times out.
func (tab *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	for _, action := range actions {
		ctx, cancel := context.WithTimeout(tab.ctx, patience)
		err := chromedp.Do(ctx, action)
		cancel()
		if err != nil {
			tab.t.Fatalf("%v\n%s", err, tab.text())
		}
	}
}

func (tab *Tab) Open(url string) {
	tab.t.Helper()
	tab.Do(chromedp.Navigate(url))
}

// Press presses keys, such as kb.Enter, one after another.
func (tab *Tab) Press(keys ...string) {
	tab.t.Helper()
	for _, k := range keys {
		tab.Do(chromedp.KeyEvent(k))
	}
}

// Shortcut presses a key for which a page has a use of its own, such as "/". Unlike with Press,
// the key does not become text if the page forbids that.
func (tab *Tab) Shortcut(key string) {
	tab.t.Helper()
	for _, event := range []input.DispatchKeyEventParams{
		{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key},
		{Type: input.DispatchKeyEventTypeKeyUp, Key: key},
	} {
		call(tab, input.DispatchKeyEvent, event)
	}
}

// Click waits until the first match of a CSS selector is visible, and clicks it.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.Do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Choose puts a file into a file input, as if a user had picked it in the browser's dialog.
func (tab *Tab) Choose(selector, path string) {
	tab.t.Helper()
	tab.Do(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{path}))
}

// Eval returns the value of a JavaScript expression. If the value is a promise, Eval returns
// what it resolves to.
func Eval[T any](tab *Tab, expression string) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tab.t.Fatalf("%.200s: %v\n%s", expression, err, tab.text())
	}
	return value
}

// Wait waits until a JavaScript expression is true.
func (tab *Tab) Wait(expression string) {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if ok {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			tab.t.Fatalf("never true: %s (%v)\n%s", expression, err, tab.text())
		}
	}
}

// Answer is a JSON response that replaces the server's.
type Answer struct {
	Status int64
	Body   any
	Header map[string]string
}

// Heap returns a snapshot of the page's JavaScript heap after a garbage collection. It contains
// every string that a script of the page can still reach.
func (tab *Tab) Heap() string {
	tab.t.Helper()
	var heap strings.Builder
	complete, stop := make(chan struct{}), sync.Once{}
	ctx, cancel := context.WithCancel(tab.ctx)
	defer cancel()
	err := chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*heapprofiler.EventAddHeapSnapshotChunk); ok {
			heap.WriteString(e.Chunk)
			if strings.HasSuffix(strings.TrimSpace(e.Chunk), "]}") {
				stop.Do(func() { close(complete) })
			}
		}
	})
	if err != nil {
		tab.t.Fatal(err)
	}
	call(tab, heapprofiler.CollectGarbage, cdp.Empty{})
	call(tab, heapprofiler.TakeHeapSnapshot, heapprofiler.TakeHeapSnapshotParams{})
	select {
	case <-complete:
	case <-time.After(patience):
		tab.t.Fatal("the snapshot of the heap is incomplete")
	}
	return heap.String()
}

// Answer replaces the responses for the paths in answers and all paths below them. The longest
// match wins. Other requests go to the server. Each call replaces all earlier answers.
func (tab *Tab) Answer(answers map[string]Answer) {
	tab.t.Helper()
	tab.mu.Lock()
	tab.answers = answers
	tab.mu.Unlock()
	if len(answers) == 0 {
		call(tab, fetch.Disable, cdp.Empty{})
		return
	}
	var patterns []*fetch.RequestPattern
	for path := range answers {
		patterns = append(patterns, &fetch.RequestPattern{URLPattern: "*" + path + "*"})
	}
	call(tab, fetch.Enable, fetch.EnableParams{Patterns: patterns})
}

func (tab *Tab) answer(e *fetch.EventRequestPaused) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	asked, err := url.Parse(e.Request.URL)
	if err != nil {
		tab.faults = append(tab.faults, err.Error())
		return
	}
	named := "" // the longest matching path
	for path := range tab.answers {
		if len(path) > len(named) && (asked.Path == path || strings.HasPrefix(asked.Path, path+"/")) {
			named = path
		}
	}
	// A listener must not wait for the browser, which waits for the listener.
	a, ok := tab.answers[named]
	if !ok {
		go chromedp.Call(tab.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID}) //nolint:errcheck // the tab may have opened another page
		return
	}
	body, err := json.Marshal(a.Body)
	if err != nil {
		tab.faults = append(tab.faults, err.Error())
	}
	headers := []*fetch.HeaderEntry{{Name: "Content-Type", Value: "application/json"}}
	for name, value := range a.Header {
		headers = append(headers, &fetch.HeaderEntry{Name: name, Value: value})
	}
	go chromedp.Call(tab.ctx, fetch.FulfillRequest, fetch.FulfillRequestParams{RequestID: e.RequestID, ResponseCode: a.Status, ResponseHeaders: headers, Body: body}) //nolint:errcheck // the tab may have opened another page
}

// Download is a file that the browser has saved.
type Download struct {
	Path string
	Name string // the file name that a user would see
}

// DownloadInto makes the tab download files into dir. next waits for a download and returns it.
func (tab *Tab) DownloadInto(dir string) (next func() Download) {
	tab.t.Helper()
	names := make(map[string]string) // by GUID; used only by the listener
	done := make(chan Download, 8)
	err := chromedp.Listen(tab.ctx, func(ev any) {
		switch e := ev.(type) {
		case *browser.EventDownloadWillBegin:
			names[e.GUID] = e.SuggestedFilename
		case *browser.EventDownloadProgress:
			if e.State == browser.DownloadProgressStateCompleted {
				done <- Download{filepath.Join(dir, e.GUID), names[e.GUID]}
			}
		}
	})
	if err != nil {
		tab.t.Fatal(err)
	}
	events := true
	call(tab, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllowAndName, DownloadPath: dir, EventsEnabled: &events,
		BrowserContextID: chromedp.FromContext(tab.ctx).BrowserContextID,
	})
	return func() Download {
		tab.t.Helper()
		select {
		case d := <-done:
			return d
		case <-time.After(patience):
			tab.t.Fatal("the browser downloaded nothing")
			return Download{}
		}
	}
}
