package localserver

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
)

func TestHealthOfAFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /dev/full")
	}
	dir, logger := t.TempDir(), slog.New(slog.DiscardHandler)
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	if _, err := openBackground(b, dir, func(string) string { return "" }, logger); err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(httpapi.Config{AccessOff: true}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, b, logger)
	if err != nil {
		t.Fatal(err)
	}
	health := func(want int, text string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/health", nil)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		if recorder.Code != want || !strings.Contains(recorder.Body.String(), text) {
			t.Errorf("%d %s, want %d %s", recorder.Code, recorder.Body, want, text)
		}
	}
	health(200, "ok")
	if err := os.Symlink("/dev/full", filepath.Join(dir, "health.tmp")); err != nil {
		t.Fatal(err)
	}
	health(503, "store_unavailable")
	health(200, "ok") // there is room again
	if err := os.Truncate(b.embedded.Path, 8192); err != nil {
		t.Fatal(err)
	}
	health(503, "store_unavailable")
	if left, err := filepath.Glob(filepath.Join(dir, "health*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
