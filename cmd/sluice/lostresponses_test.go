package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// loseAThird starts a proxy that forwards every request, but loses a third of the responses: it
// closes the connection instead of sending them. The counter is the number of lost responses.
func loseAThird(t *testing.T, target string) (string, *atomic.Int64) {
	t.Helper()
	lost := new(atomic.Int64)
	return startProxy(t, target, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if rand.IntN(3) > 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		lost.Add(1)
		panic(http.ErrAbortHandler) // closes the connection
	}), lost
}

// Updates and deletes are retried too, and each entity ends up as it should.
func TestRetriesAfterLostResponsesStoreEachRecordOnce(t *testing.T) {
	t.Parallel()
	const single, batches, batch, entities, workers = 1000, 20, 50, 60, 16
	onEachBackend(t, append([]string{"EVENT_SHARDS=4"}, unlimited...), func(t *testing.T, s *server) {
		url, lost := loseAThird(t, s.url)
		lossy, c := newClient(t, url), newClient(t, s.url)
		var jobs []func() error
		for i := range single {
			jobs = append(jobs, func() error {
				_, _, err := lossy.CreateEvent(t.Context(), event.Draft{ID: fmt.Sprintf("s%04d", i), Name: "single"})
				return err
			})
		}
		for i := range batches {
			jobs = append(jobs, func() error {
				var events []event.Draft
				for j := range batch {
					events = append(events, event.Draft{ID: fmt.Sprintf("b%02d-%02d", i, j), Name: "batch"})
				}
				results, err := lossy.CreateEvents(t.Context(), events)
				for _, r := range results {
					err = errors.Join(err, r.Err)
				}
				return err
			})
		}
		for i := range entities {
			jobs = append(jobs, func() error {
				id := fmt.Sprintf("e%02d", i)
				_, _, err := lossy.CreateEntity(t.Context(), entity.Draft{ID: id, Attributes: record.Attributes(`{"n":0,"gone":true}`)})
				if err == nil {
					_, err = lossy.UpdateEntity(t.Context(), id, record.Attributes(fmt.Sprintf(`{"n":%d,"gone":null}`, i)))
				}
				if err == nil && i%3 == 0 {
					err = lossy.DeleteEntity(t.Context(), id)
				}
				return err
			})
		}
		next := make(chan func() error)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for job := range next {
					if err := job(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for _, job := range jobs {
			next <- job
		}
		close(next)
		wg.Wait()

		events := make(map[string]int)
		for e, err := range c.Events(t.Context(), client.EventQuery{Limit: 200}) {
			if err != nil {
				t.Fatal(err)
			}
			if events[e.ID]++; events[e.ID] > 1 {
				t.Errorf("event %s is listed %d times", e.ID, events[e.ID])
			}
		}
		if len(events) != single+batches*batch {
			t.Errorf("%d events, want %d", len(events), single+batches*batch)
		}
		for i := range entities {
			e, err := c.GetEntity(t.Context(), fmt.Sprintf("e%02d", i))
			if deleted := i%3 == 0; errors.Is(err, client.ErrNotFound) != deleted || !deleted && (err != nil || string(e.Attributes) != fmt.Sprintf(`{"n":%d}`, i)) {
				t.Errorf("entity %d: %+v, %v", i, e, err)
			}
		}
		calls := int64(single + batches + entities*2 + entities/3)
		t.Logf("%d calls lost %d responses", calls, lost.Load())
		if lost.Load() < calls/4 {
			t.Errorf("only %d responses to %d calls were lost", lost.Load(), calls)
		}
	})
}
