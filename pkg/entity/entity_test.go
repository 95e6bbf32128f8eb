package entity_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/test/boltstores"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// open returns a store with the entity "ada". The store's clock shows noon.
func open(t *testing.T, attributes string) entity.Store {
	t.Helper()
	now := noon
	return openAt(t, attributes, &now)
}

// openAt is like open, but the store's clock shows *now.
func openAt(t *testing.T, attributes string, now *time.Time) entity.Store {
	t.Helper()
	stores, _ := boltstores.New(t, func() time.Time { return *now })
	ada := entity.Draft{ID: "ada", Type: "person", Attributes: record.Attributes(attributes)}
	if _, _, err := entity.Create(t.Context(), stores.Entities, "default", ada); err != nil {
		t.Fatal(err)
	}
	return stores.Entities
}

func TestUpdateSetsUpdatedAtIfItChangesTheEntity(t *testing.T) {
	now := noon
	s := openAt(t, `{"a":1}`, &now)
	for _, step := range []struct {
		patch, want string
		after       time.Duration // from noon to the call
		wantAfter   time.Duration // from noon to updated_at
	}{
		{`{}`, `{"a":1}`, time.Hour, 0},
		{`{"a":1}`, `{"a":1}`, time.Hour, 0},
		{`{"b":2}`, `{"a":1,"b":2}`, time.Hour, time.Hour},
		{`{"b":2}`, `{"a":1,"b":2}`, 2 * time.Hour, time.Hour},
		{`{"b":null}`, `{"a":1}`, time.Hour - 4*time.Second, time.Hour}, // the clock is behind the stored stamp
		{`{"a":1.0}`, `{"a":1.0}`, 3 * time.Hour, 3 * time.Hour},
	} {
		now = noon.Add(step.after)
		e, err := entity.Update(t.Context(), s, "default", "ada", record.Attributes(step.patch), nil)
		if err != nil || string(e.Attributes) != step.want || e.UpdatedAt != record.TimeOf(noon.Add(step.wantAfter)) || e.CreatedAt != record.TimeOf(noon) {
			t.Errorf("%s: %+v, error %v; want %s updated at noon plus %s", step.patch, e, err, step.want, step.wantAfter)
		}
	}
}

func TestUpdateRejectsAttributesThatGrowTooLarge(t *testing.T) {
	half := strings.Repeat("x", record.MaxAttributesBytes/2)
	s := open(t, `{"a":"`+half+`"}`)
	room := record.MaxAttributesBytes - len(`{"a":"`+half+`","b":""}`)
	for more, want := range map[int]record.Code{room: 0, room + 1: record.Invalid} {
		patch := record.Attributes(`{"b":"` + strings.Repeat("y", more) + `"}`)
		if _, err := entity.Update(t.Context(), s, "default", "ada", patch, nil); record.CodeOf(err) != want || (err == nil) != (want == 0) {
			t.Errorf("%d bytes more: error %v, want kind %v", more, err, want)
		}
	}
}
