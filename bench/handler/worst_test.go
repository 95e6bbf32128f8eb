package handler

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/test/attack"
	"sluice/internal/test/boltstores"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// BenchmarkWorst finds the request that takes the most processor time among those of package
// attack. of-health is that time divided by the time of GET /health.
func BenchmarkWorst(b *testing.B) {
	stores, _ := boltstores.New(b, time.Now)
	stores.ExportLinks, stores.ExportDeleter = noLinks{}, noLinks{}
	limiter, err := ratelimit.New(counters{}, ratelimit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	api, err := httpapi.New(limiter, stores, httpapi.Options{Config: httpapi.Config{AccessOff: true, AdminRoutes: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	serve := func(r *http.Request) { api.ServeHTTP(httptest.NewRecorder(), r) }
	const times = 2000
	begun := processorTime(b)
	for range times {
		serve(httptest.NewRequest(http.MethodGet, "/health", http.NoBody))
	}
	health := (processorTime(b) - begun) / times
	worst := make(map[bool]time.Duration) // by whether the request has a body
	names := make(map[bool]string)
	for _, route := range httpapi.Routes() {
		for _, request := range attack.Requests(route, "none", 16<<10) {
			if strings.Contains(request.Name, "a megabyte") { // net/http's server rejects it
				continue
			}
			least := time.Hour
			for range 3 {
				r := request.HTTP()
				begun := processorTime(b)
				serve(r)
				least = min(least, processorTime(b)-begun)
			}
			if hasBody := request.HasBody(); least > worst[hasBody] {
				worst[hasBody], names[hasBody] = least, request.Name
			}
		}
	}
	for hasBody, name := range map[bool]string{false: "none", true: "largest"} {
		b.Run("body="+name, func(b *testing.B) {
			for b.Loop() {
			}
			b.Logf("%s: %v, GET /health: %v", names[hasBody], worst[hasBody], health)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(worst[hasBody])/float64(health), "of-health")
		})
	}
}

// processorTime returns how much of it the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type noLinks struct{}

func (noLinks) Link(context.Context, exportjob.File) (string, error) { return "", fs.ErrNotExist }

func (noLinks) Delete(context.Context, exportjob.File) error { return fs.ErrNotExist }
