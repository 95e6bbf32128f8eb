//go:build !race

// With the race detector, a sync.Pool drops some of what it is given, and each attack takes ten times as long.

package bootstrap

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"sluice/internal/test/attack"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// API Gateway accepts 10 KB of headers with the request line.
func TestNoEventCostsMuch(t *testing.T) {
	attack.SparePools(t)
	s := newService(t)
	key, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now().Add(-time.Hour))
	s.opts.AccessOff, s.opts.Logger = false, slog.New(slog.DiscardHandler)
	var err error
	if s.opts.Access, err = access.NewAuthenticator(keyStore{key.ID: key}, now); err != nil {
		t.Fatal(err)
	}
	if s.limiter, err = ratelimit.New(memory.NewCounters(), ratelimit.Config{Now: now, Limits: ratelimit.Limits{Action: ratelimit.ActionUnlimited}}); err != nil {
		t.Fatal(err)
	}
	for _, route := range httpapi.Routes() {
		api, err := httpapi.NewFunction(route.Name, s.limiter, s.stores, s.opts)
		if err != nil {
			t.Fatal(err)
		}
		f := adapt(api, func(method string) http.Handler { return api.Malformed(route.Name, method) })
		for _, request := range attack.Requests(route, token.Reveal(), 10<<10) {
			// The adapter copies the map of headers three times.
			request.Check(t, 56, func(r attack.Request) func() (int, string) {
				ev := r.Event()
				return func() (int, string) {
					resp, err := f.Invoke(t.Context(), ev)
					if err != nil {
						t.Fatal(err)
					}
					if resp.IsBase64Encoded {
						return resp.StatusCode, resp.Body[:base64.StdEncoding.DecodedLen(len(resp.Body))]
					}
					return resp.StatusCode, resp.Body
				}
			})
		}
	}
}
