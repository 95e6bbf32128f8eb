//go:build !race

// With the race detector, a sync.Pool drops some of what it is given, and each attack takes ten times as long.

package httpapi_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/test/attack"
	"sluice/pkg/access"
	"sluice/pkg/files"
	"sluice/pkg/httpapi"
)

// functions/internal/bootstrap sends the same requests through the adapter of functions.
func TestNoRequestCostsMuch(t *testing.T) {
	attack.SparePools(t)
	g := newGuarded(t)
	key := strings.TrimPrefix(g.key(t, "mine", access.Scopes()...), "Bearer ")
	g.opts.Logger = slog.New(slog.DiscardHandler)
	var err error
	if g.stores.ExportFiles, err = files.NewDir(t.TempDir(), now); err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(newRoomyAPI(t).limiter, g.stores, g.opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range append(httpapi.Routes(), httpapi.Route{Name: "export-file", Method: "GET", Path: "/export_file/{id}"}) {
		for _, request := range attack.Requests(route, key, 16<<10) {
			// net/http allocates 22 bytes for each byte of cookies that all have the session's name.
			request.Check(t, 24, func(r attack.Request) func() (int, string) {
				recorder, hr := httptest.NewRecorder(), r.HTTP()
				return func() (int, string) {
					api.ServeHTTP(recorder, hr)
					return recorder.Code, recorder.Body.String()
				}
			})
		}
	}
}
