package entity_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func TestChangesAsJSON(t *testing.T) {
	at, later := record.TimeOf(noon), record.TimeOf(noon.Add(time.Hour))
	e := entity.Entity{ID: "ada", Type: "<person>", Attributes: record.Attributes(`{"n":1.50}`), Revision: 7, CreatedAt: at, UpdatedAt: later}
	tombstone := entity.Change{Entity: entity.Entity{ID: "ada", Type: "<person>", Revision: 8, CreatedAt: at}, Deleted: true, DeletedAt: later}
	erased := tombstone
	erased.ErasedAt = at
	filtered := entity.Change{Entity: entity.Entity{ID: "ada", Type: "<person>", Revision: 9, UpdatedAt: later}, Deleted: true, Reason: record.Filtered, ErasedAt: at}
	for want, c := range map[string]entity.Change{
		`{"id":"ada","type":"<person>","attributes":{"n":1.50},"revision":7,"created_at":"2026-01-02T12:00:00.000Z","updated_at":"2026-01-02T13:00:00.000Z"}`:                                             {Entity: e},
		`{"id":"ada","type":"<person>","attributes":{"n":1.50},"revision":7,"created_at":"2026-01-02T12:00:00.000Z","updated_at":"2026-01-02T13:00:00.000Z","erased_at":"2026-01-02T12:00:00.000Z"}`:      {Entity: e, ErasedAt: at},
		`{"id":"ada","type":"<person>","revision":8,"created_at":"2026-01-02T12:00:00.000Z","deleted_at":"2026-01-02T13:00:00.000Z","deleted":true}`:                                                      tombstone,
		`{"id":"ada","type":"<person>","revision":8,"created_at":"2026-01-02T12:00:00.000Z","deleted_at":"2026-01-02T13:00:00.000Z","deleted":true,"erased":true,"erased_at":"2026-01-02T12:00:00.000Z"}`: erased,
		`{"id":"ada","type":"<person>","revision":9,"updated_at":"2026-01-02T13:00:00.000Z","deleted":true,"reason":"filter","erased_at":"2026-01-02T12:00:00.000Z"}`:                                     filtered,
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

func TestListsOfChangesShowErasuresBesideTombstones(t *testing.T) {
	t.Parallel()
	s := open(t, `{}`)
	for _, id := range []string{"ada", "gone"} {
		if _, _, err := s.Write(t.Context(), "default", entity.Erasure(id, record.TimeOf(noon), noon)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := entity.Create(t.Context(), s, "default", change("ada", "person", `{}`)); err != nil {
		t.Fatal(err)
	}
	for include, want := range map[bool]string{false: "ada false", true: "ada true, gone true"} {
		page, err := entity.ListChanges(t.Context(), s, "default", entity.ChangeQuery{SyncQuery: record.SyncQuery{Limit: 10}, IncludeDeleted: include}, noon)
		var got []string
		for _, c := range page.Records {
			got = append(got, fmt.Sprint(c.ID, " ", c.Erased()))
		}
		if strings.Join(got, ", ") != want || err != nil {
			t.Errorf("with tombstones %v: %q, error %v; want %s", include, got, err, want)
		}
	}
}
