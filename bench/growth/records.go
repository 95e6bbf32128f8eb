package growth

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"go.etcd.io/bbolt"

	"sluice/bench/report"
	"sluice/internal/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/entity"
	entitybolt "sluice/pkg/entity/boltstore"
	"sluice/pkg/event"
	eventbolt "sluice/pkg/event/boltstore"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
	"sluice/pkg/record"
)

// service is what "sluice serve" keeps in a file, with so many entities and as
// many events, and the handlers of its routes.
type service struct {
	db       *bbolt.DB
	handlers map[string]*httpapi.Handler
	seeded   bbolt.Stats  // of the file, when it had what it was to begin with
	created  atomic.Int64 // events since then
}

func id(i int) string { return fmt.Sprintf("018f-%010d", i) }

func newService(t *testing.T, size int) *service {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "sluice.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) //nolint:errcheck // nobody reads it any more
	entityStore, err := entitybolt.New(db)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := eventbolt.New(db)
	if err != nil {
		t.Fatal(err)
	}
	// Many records a transaction, and none on disk before the end.
	const together = 1000
	batch := db.MaxBatchSize
	db.NoSync, db.MaxBatchSize, db.MaxBatchDelay = true, together, 10*time.Millisecond
	created := record.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	concurrently(t, together, size, func(ctx context.Context, i int) error {
		attributes := record.Attributes(fmt.Sprintf(`{"n":%d,"plan":"free","note":"what a client keeps of a person or a thing, in a few words"}`, i))
		if _, _, err := entityStore.Create(ctx, access.DefaultWorkspace, entity.Entity{ID: id(i), Type: "person", Attributes: attributes, CreatedAt: created, UpdatedAt: created}); err != nil {
			return err
		}
		occurred := record.TimeOf(created.Time().Add(time.Duration(i) * time.Second))
		_, _, err := stored.Create(ctx, access.DefaultWorkspace, event.Event{ID: id(i), Name: "signed_up", Attributes: attributes, OccurredAt: occurred, CreatedAt: created})
		return err
	})
	if err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	db.NoSync, db.MaxBatchSize, db.MaxBatchDelay = false, batch, 2*time.Millisecond // as "sluice serve" has it

	s := &service{db: db, seeded: db.Stats(), handlers: make(map[string]*httpapi.Handler)}
	limiter := newLimiter(t, memstore.New(), time.Unix(1_800_000_000, 0), ratelimit.Limits{})
	for _, route := range []string{"get-entity", "list-entity", "list-event", "create-event"} {
		s.handlers[route], err = httpapi.NewHandler(route, limiter, httpapi.Stores{Entities: entityStore, Events: stored},
			httpapi.Options{AccessOff: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// invoke sends an event to the handler of a route.
func (s *service) invoke(ctx context.Context, route string, ev events.APIGatewayV2HTTPRequest, status int) error {
	resp, err := s.handlers[route].Invoke(ctx, ev)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s: %d %s", route, resp.StatusCode, resp.Body)
	}
	return err
}

// records grows what the embedded store holds.
func records(t *testing.T) report.Section {
	points := []int{1000, 10_000, 100_000, 1_000_000}
	services := make([]*service, len(points))
	for i, n := range points {
		services[i] = newService(t, n)
	}
	s := report.Section{
		Title: "Growth: records",
		About: "Requests through the handler, on the store of `sluice serve` in a file, holding so many entities and as many events: µs, and in brackets the ratio to the first. " +
			"Reads one after the other; events come 16 at once, synced to disk.",
		Header: header("Records", points),
	}
	target := map[string]string{"list-entity": "/entity?limit=50", "list-event": "/event?limit=50"}
	read := func(route string, n int) func(int) time.Duration {
		return func(i int) time.Duration {
			all := make([]events.APIGatewayV2HTTPRequest, n)
			for k := range all {
				if route == "get-entity" {
					of := id(rand.IntN(points[i]))
					all[k] = lambdatest.Event("GET", "/entity/"+of, "192.0.2.1", "")
					all[k].PathParameters = map[string]string{"id": of}
				} else {
					all[k] = lambdatest.Event("GET", target[route], "192.0.2.1", "")
				}
			}
			ctx := t.Context()
			began := time.Now()
			for _, ev := range all {
				if err := services[i].invoke(ctx, route, ev, 200); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began) / time.Duration(n)
		}
	}
	create := func(i int) time.Duration {
		const n = 160
		began := time.Now()
		concurrently(t, 16, n, func(ctx context.Context, k int) error {
			ev := lambdatest.Event("POST", "/create_event", "192.0.2.1", fmt.Sprintf(`{"name":"signed_up","attributes":{"n":%d,"plan":"free"}}`, k))
			services[i].created.Add(1)
			return services[i].invoke(ctx, "create-event", ev, 201)
		})
		return time.Since(began) / n
	}
	last := len(points) - 1
	bare := axis{name: "bbolt alone finds an entity, for comparison", points: points, slice: func(i int) time.Duration {
		const n = 2000
		began := time.Now()
		for range n {
			services[i].find(t, id(rand.IntN(points[i])))
		}
		return time.Since(began) / n
	}}
	found := bare.measure(25)
	why := map[string]func() string{
		"get-entity": func() string {
			return fmt.Sprintf("bbolt takes %s µs to find one of %d at random, and %s µs of %d: a tree of %d pages from root to leaf instead of %d",
				report.Number(float64(found.took[last].Nanoseconds())/1000), points[last], report.Number(float64(found.took[0].Nanoseconds())/1000), points[0],
				services[last].depth(t), services[0].depth(t))
		},
		"create-event": func() string {
			return fmt.Sprintf("bbolt allocates %s KB of pages for each event with %d there, %s KB with %d: it copies all pages from root to leaf",
				report.Number(services[last].kilobytesPerEvent()), points[last], report.Number(services[0].kilobytesPerEvent()), points[0])
		},
	}
	for _, a := range []struct {
		axis
		route  string
		rounds int
	}{
		{axis{name: "`GET /entity/{id}`", slice: read("get-entity", 400)}, "get-entity", 25},
		{axis{name: "`GET /entity?limit=50`", slice: read("list-entity", 30)}, "", 25},
		{axis{name: "`GET /event?limit=50`", slice: read("list-event", 30)}, "", 25},
		{axis{name: "`POST /create_event`", slice: create}, "create-event", 10},
	} {
		a.points = points
		m := a.measure(a.rounds)
		if why[a.route] != nil {
			a.why = why[a.route]()
		}
		row, claim := a.row(m)
		s.Rows, s.Claims = append(s.Rows, row), append(s.Claims, claim)
	}
	row, _ := bare.row(found)
	s.Rows = append(s.Rows, row)
	return s
}

// entities is the bucket that has the entities by id.
func entities(tx *bbolt.Tx) *bbolt.Bucket {
	return tx.Bucket([]byte("entities")).Bucket([]byte(access.DefaultWorkspace))
}

// find looks for an entity with nothing of Sluice between.
func (s *service) find(t *testing.T, id string) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		if entities(tx).Get([]byte(id)) == nil {
			return fmt.Errorf("there is no entity %s", id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// depth is how many pages it takes to find an entity.
func (s *service) depth(t *testing.T) (depth int) {
	t.Helper()
	err := s.db.View(func(tx *bbolt.Tx) error {
		depth = entities(tx).Stats().Depth
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return depth
}

// kilobytesPerEvent is what the file's pages have taken for each event since
// the service was made.
func (s *service) kilobytesPerEvent() float64 {
	now := s.db.Stats()
	since := now.Sub(&s.seeded)
	return float64(since.TxStats.GetPageAlloc()) / 1000 / float64(s.created.Load())
}
