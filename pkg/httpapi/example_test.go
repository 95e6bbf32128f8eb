package httpapi_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// This function creates entities in a file. It admits at most two requests a second per client.
func ExampleNewFunction() {
	dir, err := os.MkdirTemp("", "sluice-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	stores, err := bolt.Open(dir, bolt.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer stores.Close() //nolint:errcheck // the files are removed
	now := func() time.Time { return time.Unix(1_800_000_000, 0) }
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{Limits: ratelimit.Limits{Imports: 2}, Now: now})
	if err != nil {
		log.Fatal(err)
	}
	api, err := httpapi.NewFunction("create-entity", limiter, httpapi.Stores{Entities: stores.Entities}, httpapi.Options{
		Config: httpapi.Config{AccessOff: true},
		Logger: slog.New(slog.DiscardHandler),
		Now:    now,
	})
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		r := httptest.NewRequest("POST", "/create_entity", strings.NewReader(`{"id":"ada","type":"person"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header()["X-RateLimit-Remaining"], w.Header().Get("Retry-After"), w.Header().Get("Content-Type")) //nolint:staticcheck // X-RateLimit-Remaining keeps its case, so Get does not find it
	}
	// Output:
	// 201 [1]  application/json
	// 200 [0]  application/json
	// 429 [0] 1 application/problem+json
}
