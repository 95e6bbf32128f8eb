package localserver

import (
	"crypto/rand"
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
	for _, tt := range []struct {
		from, method, target, ranges string
		status                       int
		says                         string // in the body
	}{
		{"192.0.2.1", "GET", link, "", 200, "0123456789"},
		{"192.0.2.1", "GET", link, "bytes=3-4", 206, "34"},
		{"192.0.2.1", "GET", link, "bytes=10-", 416, ""},
		{"192.0.2.1", "HEAD", link, "", 200, ""},
		{"192.0.2.1", "GET", strings.Replace(link, "event-a", "event-b", 1), "", 403, `"code":"invalid_link"`},
		{"192.0.2.1", "GET", link + "&expires=1", "", 400, "expires is given more than once"},
		{"192.0.2.1", "GET", link, "", 429, `"code":"rate_limit_exceeded"`},
		{blockedClient, "GET", link, "", 403, `"code":"address_blocked"`},
		{blockedClient, "HEAD", link, "", 403, ""},
		{"192.0.2.2", "DELETE", link, "", 405, "use GET or HEAD"},
		{"192.0.2.2", "GET", "/export_file/a/b", "", 403, `"code":"invalid_link"`},
		{"192.0.2.2", "GET", "/export_file/../event", "", 404, "no_such_route"},
		{"192.0.2.2", "GET", "/export_file/", "", 404, "no_such_route"},
	} {
		resp, body := ask(tt.from, tt.method, tt.target, tt.ranges)
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s %.40s: %d %s; want %d %s", tt.method, tt.target, resp.StatusCode, body, tt.status, tt.says)
		}
	}
	if _, usage := ask("192.0.2.1", "GET", "/usage", ""); !strings.Contains(usage, `"export-file":6`) {
		t.Errorf("the usage is %s", usage)
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
	content := strings.Repeat(rand.Text(), 100_000)
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
