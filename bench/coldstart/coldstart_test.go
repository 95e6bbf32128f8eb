// Package coldstart measures the cold start of each function, from exec to the first poll for
// an event, and the size of the zip file that Lambda fetches.
package coldstart

import (
	"bytes"
	"fmt"
	"hash/crc32"
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

// indexed lists the functions that also read the indexes during init.
var indexed = []string{"create-entity", "create-event", "create-events", "list-entity", "list-entity-index", "list-event", "update-entity", "upsert-entities"}

// calls maps functions to the number of DynamoDB calls that they make during init. A function that is
// not listed reads the limits, the service's id and, if it is in indexed, the indexes.
var calls = map[string]int{"create-events": 10, "upsert-entities": 10, "usage": 4, "export-starter": 0, "export-worker": 0, "erasure-worker": 0, "job-monitor": 0, "index-worker": 0}

// BenchmarkColdStart starts three programs in turn, with a DynamoDB that responds after 0, 5 and
// 20 ms: Sluice's function, the bare function, and the bare function with the init calls of Sluice's
// function. It reports medians:
//
//   - ns/start is how long Sluice's function takes to start.
//   - bare-ns/start is how long the bare function takes with the same calls.
//   - x-same-calls is the first divided by the second.
//   - x-bare is ns/start without the time of the init calls, divided by the start time of the bare
//     function. The time of the calls is the difference between the bare function's two starts.
//   - zip-MB is the size of the zipped arm64 binary of Sluice's function.
func BenchmarkColdStart(b *testing.B) {
	b.Chdir("../..")
	bare := filepath.Join(b.TempDir(), "bare")
	lambdatest.Compile(b, "bench", "sluice/bench/coldstart/bare", runtime.GOARCH, bare)
	mains, err := filepath.Glob("functions/*/main.go")
	if err != nil || len(mains) == 0 {
		b.Fatalf("no functions: %v", err)
	}
	for _, delay := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
		endpoint := dynamoDB(b, delay)
		for _, main := range mains {
			name := filepath.Base(filepath.Dir(main))
			function := lambdatest.Build(b, name)
			inits, ok := calls[name]
			if !ok {
				inits = 2
			}
			reads := ""
			if slices.Contains(indexed, name) {
				reads = "1"
				inits = max(inits, 3)
			}
			b.Run(fmt.Sprintf("call=%v/function=%s", delay, name), func(b *testing.B) {
				var own, plain, calling []time.Duration
				for b.Loop() {
					own = append(own, start(b, endpoint, function))
					plain = append(plain, start(b, endpoint, bare))
					calling = append(calling, start(b, endpoint, bare, fmt.Sprint("CALLS=", inits), "INDEXED="+reads))
				}
				b.ReportMetric(median(own), "ns/start")
				b.ReportMetric(median(calling), "bare-ns/start")
				b.ReportMetric(median(own)/median(calling), "x-same-calls")
				b.ReportMetric((median(own)-median(calling)+median(plain))/median(plain), "x-bare")
				if delay == 0 {
					b.ReportMetric(zippedSize(b, name), "zip-MB")
				}
				b.ReportMetric(0, "ns/op") // hides ns/op, which would include three starts and stops
			})
		}
	}
}

// start returns the time from exec until the program first polls for an event.
func start(b *testing.B, endpoint, program string, env ...string) time.Duration {
	b.Helper()
	begin := time.Now()
	i, err := lambdatest.Run(program, append([]string{
		"AUTH_MODE=api-key", "ADMIN_ROUTES=on", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "EXPORT_FILE_DAYS=1", "EXPORT_JOBS_BUCKET=bucket",
		"COUNTERS_TABLE=counters", "LIMITS_TABLE=limits", "KEYS_TABLE=keys", "AUDIT_TABLE=audit", "ENTITIES_TABLE=entities", "EVENTS_TABLE=events", "EXPORT_JOBS_TABLE=jobs", "ERASURE_JOBS_TABLE=erasures"}, env...)...)
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
// nothing, and the condition of every other call fails. It responds to each after a delay.
func dynamoDB(b *testing.B, delay time.Duration) (endpoint string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an error has no effect on the measurement
		time.Sleep(delay)
		status, response := http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`
		if bytes.Contains(body, []byte("#service")) {
			status, response = http.StatusOK, `{"Item":{"service_id":{"S":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}}}`
		} else if target := r.Header.Get("X-Amz-Target"); strings.HasSuffix(target, ".Scan") || strings.HasSuffix(target, ".Query") {
			status, response = http.StatusOK, `{"Count":0,"Items":[],"ScannedCount":0}`
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE([]byte(response)))) // the SDK logs a warning without it
		w.WriteHeader(status)
		io.WriteString(w, response) //nolint:errcheck // on an error, the client fails too
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
