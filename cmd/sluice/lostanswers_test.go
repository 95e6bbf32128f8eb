package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// loseAThird runs a proxy in front of a server. The proxy forwards every request, but drops
// a third of the responses and closes the connection instead.
func loseAThird(t *testing.T, target string) (string, *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(to)
	lost := new(atomic.Int64)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(3) > 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		lost.Add(1)
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close() //nolint:errcheck // the client must see a broken connection
		}
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, lost
}

// insist repeats an import until its response arrives, and returns the response. It stops
// early only if the service says not to retry. It repeats a batch while one of its results
// is a 503.
func insist(ctx context.Context, base, target, body string) (status int, answer string, err error) {
	for range 50 {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+target, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // the response was lost
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close() //nolint:errcheck // the body has been read
		again := resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests ||
			resp.StatusCode == http.StatusMultiStatus && strings.Contains(string(b), `"status":503`)
		if err != nil || again {
			continue
		}
		return resp.StatusCode, string(b), nil
	}
	return 0, "", fmt.Errorf("%s: no response in 50 tries", target)
}

// If a client retries each call whose response is lost, each record is stored once, and none
// is deleted or changed by mistake.
func TestARepeatAfterALostAnswerDoublesNothing(t *testing.T) {
	t.Parallel()
	const single, batches, batch, entities, workers = 1000, 20, 50, 60, 16
	onEachBackend(t, append([]string{"EVENT_SHARDS=4"}, unlimited...), func(t *testing.T, s *server) {
		lossy, lost := loseAThird(t, s.url)

		// Each job is a sequence of calls by one worker.
		var jobs [][][2]string // target, body
		for i := range single {
			jobs = append(jobs, [][2]string{{"/create_event", fmt.Sprintf(`{"id":"s%04d","name":"single"}`, i)}})
		}
		for i := range batches {
			var events []string
			for j := range batch {
				events = append(events, fmt.Sprintf(`{"id":"b%02d-%02d","name":"batch"}`, i, j))
			}
			jobs = append(jobs, [][2]string{{"/create_events", `{"events":[` + strings.Join(events, ",") + `]}`}})
		}
		for i := range entities {
			id := fmt.Sprintf("e%02d", i)
			job := [][2]string{
				{"/create_entity", fmt.Sprintf(`{"id":%q,"attributes":{"n":0,"gone":true}}`, id)},
				{"/update_entity", fmt.Sprintf(`{"id":%q,"attributes":{"n":%d,"gone":null}}`, id, i)},
			}
			if i%3 == 0 {
				job = append(job, [2]string{"/delete_entity", fmt.Sprintf(`{"id":%q}`, id)})
			}
			jobs = append(jobs, job)
		}
		next := make(chan [][2]string)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for job := range next {
					for _, call := range job {
						status, answer, err := insist(t.Context(), lossy, call[0], call[1])
						if err != nil || status != http.StatusOK && status != http.StatusCreated && (status != http.StatusMultiStatus || strings.Contains(answer, `"problem"`)) {
							t.Errorf("%s %s: %d %.300s, error %v", call[0], call[1], status, answer, err)
						}
					}
				}
			})
		}
		for _, job := range jobs {
			next <- job
		}
		close(next)
		wg.Wait()

		c := s.client(t)
		events := make(map[string]int)
		for _, id := range walk(t, c, "/event?limit=200") {
			events[id]++
		}
		if len(events) != single+batches*batch {
			t.Errorf("%d events, want %d", len(events), single+batches*batch)
		}
		for id, n := range events {
			if n != 1 {
				t.Errorf("event %s is stored %d times", id, n)
			}
		}
		for i := range entities {
			r := c.do(t, "GET", fmt.Sprintf("/entity/e%02d", i), "")
			if i%3 == 0 {
				if r.status != http.StatusNotFound {
					t.Errorf("entity %d: %d %s", i, r.status, r.body)
				}
				continue
			}
			var got struct{ Attributes json.RawMessage }
			if err := json.Unmarshal([]byte(r.body), &got); err != nil || string(got.Attributes) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Errorf("entity %d: %d %s", i, r.status, r.body)
			}
		}
		calls := int64(single + batches + entities*2 + entities/3)
		t.Logf("%d calls lost %d responses", calls, lost.Load())
		if lost.Load() < calls/4 {
			t.Errorf("only %d responses to %d calls were lost", lost.Load(), calls)
		}
	})
}
