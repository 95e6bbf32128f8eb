package localserver

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
)

func openAPI(t *testing.T) *httpapi.API {
	t.Helper()
	b, err := openEmbedded(t.TempDir(), entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	if _, err := openBackground(b, t.TempDir(), os.Getenv, nil); err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(httpapi.Config{AccessOff: true}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, b, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func TestTheDashboardGetsTheImporterOnceItIsBuilt(t *testing.T) {
	t.Parallel()
	handler, dir := openAPI(t), t.TempDir()
	followImporter(t.Context(), dir, handler)
	page := func() string {
		r, w := httptest.NewRequest(http.MethodGet, "/dashboard", http.NoBody), httptest.NewRecorder()
		r.Host = "localhost"
		handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	if p := page(); strings.Contains(p, "data-program") || !strings.Contains(p, `data-keys="off"`) {
		t.Fatal("the page has an importer that is not there")
	}
	for _, name := range []string{"wasm_exec.js", "importer.wasm.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(30 * time.Second); ; {
		if p := page(); strings.Contains(p, "data-program") && strings.Contains(p, `data-keys="off"`) {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("the page has no importer")
		}
	}
}
