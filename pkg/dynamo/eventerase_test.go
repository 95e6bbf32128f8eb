package dynamo

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// staleIndex is a client that calls change after each query, and then returns the old results.
type staleIndex struct {
	*dynamodb.Client
	change func()
}

func (c staleIndex) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := c.Client.Query(ctx, in, opts...)
	c.change()
	return out, err
}

// While the index still has an expired event, an event with the same id is created two days
// later.
func TestEraseLeavesAnotherEventWithTheSameID(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EventsTable")
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := noon
	clock := func() time.Time { return now }
	create := func(s event.Store, entityID string, at time.Time) {
		t.Helper()
		now = at
		e := event.Draft{ID: "a", Name: "n", EntityID: entityID, KeepFor: 24 * time.Hour}
		if _, created, err := s.Create(t.Context(), "default", e); !created || err != nil {
			t.Fatalf("create for %s: %v, error %v", entityID, created, err)
		}
	}
	for _, tt := range []struct {
		entity string
		until  int // in days
		erased int64
	}{{"grace", 3, 0}, {"", 3, 0}, {"ada", 1, 0}, {"ada", 3, 1}} {
		s, err := NewEvents(client, table, EventsConfig{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		create(s, "ada", noon)
		stale, err := NewEvents(staleIndex{client, func() { create(s, tt.entity, noon.AddDate(0, 0, 2)) }}, table, EventsConfig{Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		erased, err := stale.Erase(t.Context(), "default", event.Erasure{EntityID: "ada", Until: record.TimeOf(noon.AddDate(0, 0, tt.until)), Limit: 10})
		if err != nil || erased.Events != tt.erased {
			t.Errorf("%+v: %d events were erased, error %v", tt, erased.Events, err)
		}
		noon = noon.AddDate(0, 0, 10)
	}
}
