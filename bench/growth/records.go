package growth

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
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
	size     int
	db       *bbolt.DB
	handlers map[string]*httpapi.Handler
}

func id(i int) string { return fmt.Sprintf("018f-%010d", i) }

func newService(t *testing.T, size int) *service {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "sluice.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) //nolint:errcheck // nobody reads it any more
	entities, err := entitybolt.New(db)
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
		if _, _, err := entities.Create(ctx, access.DefaultWorkspace, entity.Entity{ID: id(i), Type: "person", Attributes: attributes, CreatedAt: created, UpdatedAt: created}); err != nil {
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

	s := &service{size: size, db: db, handlers: make(map[string]*httpapi.Handler)}
	limiter := newLimiter(t, memstore.New(), time.Unix(1_800_000_000, 0), ratelimit.Limits{})
	for _, route := range []string{"get-entity", "list-entity", "list-event", "create-event"} {
		s.handlers[route], err = httpapi.NewHandler(route, limiter, httpapi.Stores{Entities: entities, Events: stored},
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
			return services[i].invoke(ctx, "create-event", ev, 201)
		})
		return time.Since(began) / n
	}
	for _, a := range []struct {
		axis
		rounds int
	}{
		{axis{name: "`GET /entity/{id}`", slice: read("get-entity", 400)}, 25},
		{axis{name: "`GET /entity?limit=50`", slice: read("list-entity", 30)}, 25},
		{axis{name: "`GET /event?limit=50`", slice: read("list-event", 30)}, 25},
		{axis{name: "`POST /create_event`", slice: create}, 10},
	} {
		a.points = points
		row, claim := a.row(a.measure(a.rounds))
		s.Rows, s.Claims = append(s.Rows, row), append(s.Claims, claim)
	}
	return s
}
