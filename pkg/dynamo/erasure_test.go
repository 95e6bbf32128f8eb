package dynamo

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

// died stands for entities that a killed instance no longer writes.
type died struct{}

func (died) Write(context.Context, string, entity.Write) (entity.Change, bool, error) {
	return entity.Change{}, false, errors.New("killed")
}

func TestErasures(t *testing.T) {
	t.Parallel()
	storetest.Erasures(t, func(t *testing.T, now func() time.Time) storetest.ErasureStores {
		client := dynamolocal.Client(t)
		entities, err := NewEntities(client, dynamolocal.Table(t, "EntitiesTable"), EntitiesConfig{Clock: entity.Clock{Now: now}})
		events, eventsErr := NewEvents(client, dynamolocal.Table(t, "EventsTable"), EventsConfig{Now: now})
		jobs, jobsErr := NewJobs(client, erasurejob.Kind, dynamolocal.Table(t, "ErasureJobsTable"))
		if err := errors.Join(err, eventsErr, jobsErr); err != nil {
			t.Fatal(err)
		}
		return storetest.ErasureStores{
			Entities: entities, Events: events, Jobs: jobs,
			Requests: erasurejob.Requests{Jobs: jobs, Entities: entities, Now: now},
			Dying:    erasurejob.Requests{Jobs: jobs, Entities: died{}, Now: now},
		}
	})
}

// An event that was created after the erasure stays, unless its stamp is more than 4 seconds ahead of
// the run's clock.
func TestEraseTakesWhatAWrongClockHasStamped(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	until, ran := record.TimeOf(now), now.Add(record.SyncLag)
	s, err := NewEvents(dynamolocal.Client(t), dynamolocal.Table(t, "EventsTable"), EventsConfig{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	stamps := map[string]time.Time{
		"at the time of the job": until.Time(), "a millisecond later": until.Time().Add(time.Millisecond), "at the time of the run": ran,
		"4 s ahead": ran.Add(2 * record.MaxClockSkew), "more than 4 s ahead": ran.Add(2*record.MaxClockSkew + time.Millisecond), "an hour ahead": ran.Add(time.Hour),
	}
	ids := map[string]string{}
	for name, at := range stamps {
		now = at
		e, _, err := event.Create(t.Context(), s, "default", event.Draft{ID: fmt.Sprint("e-", len(ids)), Name: "n", EntityID: "ada"})
		if err != nil || !e.CreatedAt.Time().Equal(at) {
			t.Fatalf("%s: %+v, error %v", name, e, err)
		}
		ids[name] = e.ID
	}
	now = ran
	if erased, err := s.Erase(t.Context(), "default", event.Erasure{EntityID: "ada", Until: until, Limit: 10}); err != nil || erased.Events != 3 {
		t.Errorf("%+v, error %v", erased, err)
	}
	for name, want := range map[string]bool{"a millisecond later": true, "at the time of the run": true, "4 s ahead": true, "at the time of the job": false, "more than 4 s ahead": false, "an hour ahead": false} {
		if _, err := s.Get(t.Context(), "default", ids[name]); (err == nil) != want {
			t.Errorf("%s: error %v, want it to stay: %v", name, err, want)
		}
	}
}
