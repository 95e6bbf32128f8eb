package entity_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// The tests of package record check how each type of member is written and read.
func TestJSON(t *testing.T) {
	at, later := record.TimeOf(time.Unix(0, 0)), record.TimeOf(time.UnixMilli(1767366245678))
	e := entity.Entity{ID: "a", Type: "person", Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9"}`), Revision: 7, CreatedAt: at, UpdatedAt: later}
	for _, tt := range []struct {
		c    entity.Change
		want string
	}{
		{entity.Change{Entity: e}, `{"id":"a","type":"person","attributes":{"a":1.0,"b":"\u00e9"},"revision":7,"created_at":"1970-01-01T00:00:00.000Z","updated_at":"2026-01-02T15:04:05.678Z"}`},
		{entity.Change{Entity: e, ErasedAt: later}, `{"id":"a","type":"person","attributes":{"a":1.0,"b":"\u00e9"},"revision":7,"created_at":"1970-01-01T00:00:00.000Z","updated_at":"2026-01-02T15:04:05.678Z","erased_at":"2026-01-02T15:04:05.678Z"}`},
		{
			entity.Change{Entity: entity.Entity{ID: "a", Type: "person", Revision: 8, CreatedAt: at}, Deleted: true, DeletedAt: later},
			`{"id":"a","type":"person","revision":8,"created_at":"1970-01-01T00:00:00.000Z","deleted_at":"2026-01-02T15:04:05.678Z","deleted":true}`,
		},
		{
			entity.Change{Entity: entity.Entity{ID: "a", Type: "person", Revision: 8, CreatedAt: at}, Deleted: true, DeletedAt: later, ErasedAt: later},
			`{"id":"a","type":"person","revision":8,"created_at":"1970-01-01T00:00:00.000Z","deleted_at":"2026-01-02T15:04:05.678Z","deleted":true,"erased":true,"erased_at":"2026-01-02T15:04:05.678Z"}`,
		},
		{
			entity.Change{Entity: entity.Entity{ID: "a", Type: "person", Revision: 9, UpdatedAt: at}, Deleted: true, Reason: "filter", ErasedAt: later},
			`{"id":"a","type":"person","revision":9,"updated_at":"1970-01-01T00:00:00.000Z","deleted":true,"reason":"filter","erased_at":"2026-01-02T15:04:05.678Z"}`,
		},
	} {
		if got, err := tt.c.AppendJSON([]byte("before")); err != nil || string(got) != "before"+tt.want {
			t.Errorf("got  %s, error %v\nwant %s", got, err, tt.want)
		}
		var again entity.Change
		if err := json.Unmarshal([]byte(tt.want), &again); err != nil || !reflect.DeepEqual(again, tt.c) {
			t.Errorf("%s: read %+v, error %v", tt.want, again, err)
		}
	}
}

// A client encodes what the service parses.
func TestADraftIsParsedAsItIsEncoded(t *testing.T) {
	for _, d := range []entity.Draft{
		{Attributes: record.Attributes("{}")},
		{ID: "a", Type: "t", Attributes: record.Attributes(`{"n":1.50}`)},
	} {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := entity.Parse(text); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s: parsed %+v, error %v", text, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	whole := entity.Entity{ID: "a", Type: "t", Attributes: record.Attributes(`{"n":1.50,"s":"\u0041"}`), Revision: 7, CreatedAt: at, UpdatedAt: at}
	text, err := whole.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		want entity.Draft
	}{
		{string(text), entity.Draft{ID: "a", Type: "t", Attributes: whole.Attributes}},
		{`{}`, entity.Draft{Attributes: record.Attributes("{}")}},
		{`{"id":null,"type":null,"attributes":null,"created_at":null,"updated_at":5}`, entity.Draft{Attributes: record.Attributes("{}")}},
		{` { "attributes" : { "a" : [ 1 , null ] } } `, entity.Draft{Attributes: record.Attributes(`{"a":[1,null]}`)}},
	} {
		if got, err := entity.Parse([]byte(tt.text), "revision", "created_at", "updated_at"); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, error %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		`{"id":""}`: "id must be 1 to 128", `{"id":5}`: "id must be a string", `{"type":""}`: "type must be 1 to 128", `{"attributes":[]}`: "attributes must be a JSON object",
		`{"name":"n"}`: "name is not a field here", `{"name":null}`: "name is not a field here", `{"ID":"a"}`: "ID is not a field",
		`{"id":"a b","type":[],"x":1}`: "id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither \".\" nor \"..\"; type must be a string; x is not a field here",
	} {
		got, err := entity.Parse([]byte(text), "revision", "created_at", "updated_at")
		if record.CodeOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
	if got, err := entity.Parse([]byte(`{"id"`)); record.CodeOf(err) != record.Malformed {
		t.Errorf("%+v, error %v", got, err)
	}
}
