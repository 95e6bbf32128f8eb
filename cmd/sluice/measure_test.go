package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/importer"
)

// TestMeasureImports measures the speed of imports of single events and of batches at the
// default limits, and of batches on a server with limits that are never reached. It compares
// the latter with a plain loop that sends the same bodies from the same number of
// goroutines. It takes two minutes and asserts nothing:
//
//	SLUICE_MEASURE=1 go test -run TestMeasureImports -v ./cmd/sluice
func TestMeasureImports(t *testing.T) {
	if os.Getenv("SLUICE_MEASURE") == "" {
		t.Skip("this is a measurement; SLUICE_MEASURE=1 runs it")
	}
	const workers, oneByOne, inBatches, perCall = 4, 20_000, 100_000, 100
	lines := func(n int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"id":"event-%d","name":"measured","attributes":{"i":%d}}`, i, i)
		}
		return list
	}
	imported := func(n int, env []string, args ...string) importer.Result {
		s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, env...))
		file := write(t, "events.ndjson", strings.Join(lines(n), "\n"))
		out, stderr, code := run(t, sluiceCommand(t, s.url, append([]string{"import", "events", "--json", file}, args...)...))
		var result importer.Result
		if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Created != int64(n) {
			t.Fatalf("exit code %d, %s%s, %v", code, out, stderr, err)
		}
		s.stop(t)
		return result
	}
	bare := func(n int) time.Duration {
		s := startIn(t, append([]string{"DATA_DIR=" + t.TempDir()}, unlimited...))
		c := s.client(t)
		bodies := make(chan string, n/perCall)
		for all := lines(n); len(all) > 0; all = all[perCall:] {
			bodies <- `{"events":[` + strings.Join(all[:perCall], ",") + `]}`
		}
		close(bodies)
		began := time.Now()
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for body := range bodies {
					if r := c.do(t, "POST", "/create_events", body); r.status != http.StatusCreated {
						t.Errorf("%d %s", r.status, r.body)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		s.stop(t)
		return took
	}

	t.Run("in batches", func(t *testing.T) {
		for range 3 {
			took := bare(inBatches).Seconds()
			r := imported(inBatches, unlimited)
			t.Logf("the server takes %.0f events a second; sluice import put in %.0f, which is %.2f of that", inBatches/took, inBatches/r.Seconds, took/r.Seconds)
		}
	})
	t.Run("in batches at the default limits", func(t *testing.T) {
		r := imported(inBatches, nil)
		t.Logf("%.0f events a second, %d calls refused", inBatches/r.Seconds, r.CallsRefused)
	})
	t.Run("one by one at the default limits", func(t *testing.T) {
		r := imported(oneByOne, nil, "--one-by-one")
		t.Logf("%.1f calls a second, %.3f of 200; %d of %d calls refused (%.2f %%)", oneByOne/r.Seconds, oneByOne/r.Seconds/200,
			r.CallsRefused, oneByOne+r.CallsRefused, 100*float64(r.CallsRefused)/float64(oneByOne+r.CallsRefused))
	})
}
