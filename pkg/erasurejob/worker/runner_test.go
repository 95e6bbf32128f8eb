package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"sluice/pkg/erasurejob"
	"sluice/pkg/erasurejob/worker"
)

// gate is a Store whose Get waits and then finds no job. Each run of a Worker therefore
// calls Get only once.
type gate struct {
	erasurejob.Store
	runs atomic.Int64
	open chan struct{}
}

func (g *gate) Get(_ context.Context, _, id string) (erasurejob.Job, error) {
	g.runs.Add(1)
	<-g.open
	return erasurejob.Job{}, erasurejob.NotFoundError(id)
}

func TestAJobWaitsForASlotOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 4
		s, logger := &jobs{}, slog.New(slog.DiscardHandler)
		r := worker.NewRunner(s, logger)
		g := &gate{Store: r, open: make(chan struct{})}
		w, err := worker.New(g, eventsCreated(), worker.Config{Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context(), w, s); err != nil {
			t.Fatal(err)
		}
		for range slots + 10 {
			request(t, r)
			synctest.Wait() // returns as soon as the run has a slot or is blocked because no slot is free
		}
		if n := g.runs.Load(); n != slots {
			t.Errorf("%d runs at once, want %d", n, slots)
		}
		close(g.open)
		synctest.Wait()
		if n := g.runs.Load(); n != slots+1 {
			t.Errorf("%d runs after all requests, want %d", n, slots+1)
		}
		request(t, r)
		r.Wait()
		if n := g.runs.Load(); n != slots+2 {
			t.Errorf("%d runs after one more request, want %d", n, slots+2)
		}
	})
}
