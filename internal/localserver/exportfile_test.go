package localserver

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

const blockedClient = "192.0.2.66"

// linked returns a server, and a link to a file with this content.
func linked(t *testing.T, content string) (handler http.Handler, link string) {
	t.Helper()
	dir, logger := t.TempDir(), slog.New(slog.DiscardHandler)
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	if _, err := openBackground(b, dir, os.Getenv, logger); err != nil {
		t.Fatal(err)
	}
	row, err := ratelimit.NewRow(ratelimit.Row{CIDR: netip.MustParsePrefix(blockedClient + "/32"), Action: ratelimit.ActionBlock}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.limits.(ratelimit.RowManager).Put(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	handler, err = newHandler(httpapi.Config{AccessOff: true, Limits: ratelimit.Limits{Requests: 6}}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, b, logger)
	if err != nil {
		t.Fatal(err)
	}
	file := storetest.File(t, b.stores.ExportLinks.(exportjob.Files), "default", "a", content)
	if link, err = b.stores.ExportLinks.Link(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	return handler, link
}

func TestTheFilesOfLinksAreLimitedLikeOtherResponses(t *testing.T) {
	handler, link := linked(t, "0123456789")
	ask := func(from, method, target, ranges string) (resp *http.Response, body string) {
		r, w := httptest.NewRequest(method, target, http.NoBody), httptest.NewRecorder()
		r.Host, r.RemoteAddr = "localhost", from+":1234"
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		handler.ServeHTTP(w, r)
		resp = w.Result()
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy"} {
			if len(resp.Header[name]) != 1 {
				t.Errorf("%s %.20s from %s: %d with %s: %q", method, target, from, resp.StatusCode, name, resp.Header[name])
			}
		}
		return resp, w.Body.String()
	}
	type request struct {
		method, target, ranges string
		status                 int
		says                   string // in the body
	}
	send := func(from string, requests ...request) (wrong []string, windows map[string]bool) {
		windows = make(map[string]bool)
		for _, r := range requests {
			resp, body := ask(from, r.method, r.target, r.ranges)
			windows[resp.Header.Get("X-RateLimit-Reset")] = true
			if resp.StatusCode != r.status || !strings.Contains(body, r.says) {
				wrong = append(wrong, fmt.Sprintf("%s %.40s: %d %s; want %d %s", r.method, r.target, resp.StatusCode, body, r.status, r.says))
			}
		}
		return wrong, windows
	}
	for client := 1; ; client++ { // until a client's requests fall into one window
		wrong, windows := send(fmt.Sprintf("198.51.100.%d", client),
			request{"GET", link, "", 200, "0123456789"},
			request{"GET", link, "bytes=3-4", 206, "34"},
			request{"GET", link, "bytes=10-", 416, ""},
			request{"HEAD", link, "", 200, ""},
			request{"GET", strings.Replace(link, "event-a", "event-b", 1), "", 403, `"code":"invalid_link"`},
			request{"GET", link + "&expires=1", "", 400, "expires is given more than once"},
			request{"GET", link, "", 429, `"code":"rate_limit_exceeded"`},
			request{"GET", "/usage", "", 200, `"export-file":6`},
		)
		if len(windows) == 1 {
			for _, w := range wrong {
				t.Error(w)
			}
			break
		}
		if client == 250 {
			t.Fatal("the requests never fit into one window; the machine is too slow for this test")
		}
	}
	wrong, _ := send(blockedClient,
		request{"GET", link, "", 403, `"code":"address_blocked"`},
		request{"HEAD", link, "", 403, ""},
	)
	others, _ := send("192.0.2.2",
		request{"DELETE", link, "", 405, "use GET or HEAD"},
		request{"GET", "/export_file/a/b", "", 403, `"code":"invalid_link"`},
		request{"GET", "/export_file/../event", "", 404, "no_such_route"},
		request{"GET", "/export_file/", "", 404, "no_such_route"},
	)
	for _, w := range append(wrong, others...) {
		t.Error(w)
	}
	resp, _ := ask("192.0.2.3", "GET", link, "")
	for name, want := range map[string]string{"Content-Type": "application/gzip", "Content-Length": "10", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestADownloadMayTakeLongerThanAResponse(t *testing.T) {
	const deadline = 200 * time.Millisecond
	content := strings.Repeat(rand.Text(), 1_000_000)
	handler, link := linked(t, content)
	addr, _ := listen(t, handler, deadline)
	resp, err := http.Get("http://" + addr + link)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body is only read
	<-time.After(2 * deadline)
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != content {
		t.Errorf("%d of %d bytes, %v", len(body), len(content), err)
	}
}
