// Package coldstart measures the cold start of each function, from exec to the first poll for
// an event, and the size of the zip file that Lambda fetches.
package coldstart

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/lambdatest"
)

// indexed lists the functions that also read the indexed attributes during init.
var indexed = []string{"create-entity", "list-entity", "list-entity-index", "update-entity", "upsert-entities"}

// calls maps functions to the number of DynamoDB calls that they make during init to open
// connections. A function that is not listed makes one such call. A function with at least one call
// scans the limits table first.
var calls = map[string]string{"create-events": "10", "upsert-entities": "10", "usage": "4", "export-starter": "0", "export-worker": "0", "erasure-worker": "0", "job-monitor": "0"}

// BenchmarkColdStart starts three programs in turn: Sluice's function, the bare function, and
// the bare function with the init calls of Sluice's function. It reports medians:
//
//   - ns/start is how long Sluice's function takes to start.
//   - x-bare is ns/start without the time of the init calls, divided by the start time of the bare
//     function. The time of the calls is the difference between the bare function's two starts.
//   - zip-MB is the size of the zipped arm64 binary of Sluice's function.
func BenchmarkColdStart(b *testing.B) {
	b.Chdir("../..")
	bare := filepath.Join(b.TempDir(), "bare")
	lambdatest.Compile(b, "bench", "sluice/bench/coldstart/bare", runtime.GOARCH, bare)
	endpoint := dynamoDB(b)
	mains, err := filepath.Glob("functions/*/main.go")
	if err != nil || len(mains) == 0 {
		b.Fatalf("no functions: %v", err)
	}
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		function := lambdatest.Build(b, name)
		zip := zippedSize(b, name)
		inits, ok := calls[name]
		if !ok {
			inits = "1"
		}
		reads := ""
		if slices.Contains(indexed, name) {
			reads = "1"
		}
		b.Run("function="+name, func(b *testing.B) {
			var own, plain, calling []time.Duration
			for b.Loop() {
				own = append(own, start(b, endpoint, function))
				plain = append(plain, start(b, endpoint, bare))
				calling = append(calling, start(b, endpoint, bare, "CALLS="+inits, "INDEXED="+reads))
			}
			b.ReportMetric(median(own), "ns/start")
			b.ReportMetric((median(own)-median(calling)+median(plain))/median(plain), "x-bare")
			b.ReportMetric(zip, "zip-MB")
			b.ReportMetric(0, "ns/op") // hides ns/op, which would include three starts and stops
		})
	}
}

// start returns the time from exec until the program first polls for an event.
func start(b *testing.B, endpoint, program string, env ...string) time.Duration {
	b.Helper()
	begin := time.Now()
	i, err := lambdatest.Run(program, append([]string{
		"AUTH_MODE=none", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "EXPORT_FILE_DAYS=1", "EXPORT_JOBS_BUCKET=bucket",
		"COUNTERS_TABLE=counters", "LIMITS_TABLE=limits", "ENTITIES_TABLE=entities", "EVENTS_TABLE=events", "EXPORT_JOBS_TABLE=jobs", "ERASURE_JOBS_TABLE=erasures"}, env...)...)
	if err != nil {
		b.Fatal(err)
	}
	defer i.Stop()
	if err := i.Ready(b.Context()); err != nil {
		b.Fatalf("%s: %v", program, err)
	}
	return time.Since(begin)
}

// dynamoDB starts a fake DynamoDB that stores only the id of the service. Scans and queries find
// nothing, and the condition of every other call fails.
func dynamoDB(b *testing.B) (endpoint string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error has no effect on the measurement
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if bytes.Contains(body, []byte("#service")) {
			io.WriteString(w, `{"Item":{"service_id":{"S":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}}`) //nolint:errcheck // on an error, the client fails too
			return
		}
		if target := r.Header.Get("X-Amz-Target"); strings.HasSuffix(target, ".Scan") || strings.HasSuffix(target, ".Query") {
			io.WriteString(w, `{"Count":0,"Items":[],"ScannedCount":0}`) //nolint:errcheck // on an error, the client fails too
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`) //nolint:errcheck // on an error, the client fails too
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// zippedSize returns the compressed size in MB. Like SAM, it uses gzip's default level.
func zippedSize(b *testing.B, function string) float64 {
	b.Helper()
	path := filepath.Join("bin", "functions-arm64", function)
	lambdatest.Compile(b, ".", "sluice/functions/"+function, "arm64", path)
	zipped, err := exec.Command("gzip", "-c", path).Output()
	if err != nil {
		b.Fatalf("gzip: %v", err)
	}
	return float64(len(zipped)) / 1e6
}

func median(of []time.Duration) float64 {
	slices.Sort(of)
	return float64(of[len(of)/2])
}
