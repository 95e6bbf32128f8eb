package entity_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func TestChangesAsJSON(t *testing.T) {
	at, later := record.TimeOf(noon), record.TimeOf(noon.Add(time.Hour))
	e := entity.Entity{ID: "ada", Type: "<person>", Attributes: record.Attributes(`{"n":1.50}`), CreatedAt: at, UpdatedAt: later}
	for want, c := range map[string]entity.Change{
		`{"id":"ada","type":"<person>","attributes":{"n":1.50},"created_at":"2026-01-02T12:00:00.000Z","updated_at":"2026-01-02T13:00:00.000Z"}`:                                             {Entity: e},
		`{"id":"ada","type":"<person>","created_at":"2026-01-02T12:00:00.000Z","deleted_at":"2026-01-02T13:00:00.001Z","deleted":true}`:                                                      entity.TombstoneOf(e, later.Next(noon)),
		`{"id":"ada","type":"<person>","created_at":"2026-01-02T12:00:00.000Z","deleted_at":"2026-01-02T13:00:00.001Z","deleted":true,"erased":true,"erased_at":"2026-01-02T13:00:00.001Z"}`: entity.Change{Entity: e}.ErasedTombstone(noon),
		`{"id":"bob","type":"entity","created_at":"2026-01-02T12:00:00.000Z","deleted_at":"2026-01-02T12:00:00.000Z","deleted":true,"erased":true,"erased_at":"2026-01-02T12:00:00.000Z"}`:   entity.Change{Entity: entity.Entity{ID: "bob"}}.ErasedTombstone(noon),
	} {
		text, err := c.AppendJSON(nil)
		if err != nil || string(text) != want {
			t.Errorf("got  %s, error %v\nwant %s", text, err, want)
		}
		var read entity.Change
		if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, c) {
			t.Errorf("%s is read as %+v, error %v; want %+v", text, read, err, c)
		}
	}
}

func TestATombstoneIsLaterThanItsEntity(t *testing.T) {
	for lag, want := range map[time.Duration]record.Time{
		-time.Hour: record.TimeOf(noon).Next(noon.Add(-time.Hour)), 0: record.TimeOf(noon).Next(noon), time.Hour: record.TimeOf(noon.Add(time.Hour)),
	} {
		s := open(t, `{}`)
		for range 2 { // the second deletion finds no entity
			if err := entity.Delete(t.Context(), s, "default", "ada", noon.Add(lag)); err != nil {
				t.Fatal(err)
			}
		}
		page, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 10})
		if err != nil || len(page.Records) != 1 || page.Records[0].DeletedAt != want {
			t.Errorf("deleted at noon plus %s: %+v, error %v; want it at %s", lag, page.Records, err, want)
		}
	}
}
