package event_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The tests of package record check how each type of member is written and read.
func TestJSON(t *testing.T) {
	at, later := record.TimeOf(time.Unix(0, 0)), record.TimeOf(time.UnixMilli(1767366245678))
	e := event.Event{ID: "a", Name: "opened", EntityID: "ada", OccurredAt: at, Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9"}`), CreatedAt: later}
	alone := e
	alone.EntityID = ""
	for _, tt := range []struct {
		c    event.Change
		want string
	}{
		{event.Change{Event: e}, `{"id":"a","name":"opened","entity_id":"ada","occurred_at":"1970-01-01T00:00:00.000Z","attributes":{"a":1.0,"b":"\u00e9"},"created_at":"2026-01-02T15:04:05.678Z"}`},
		{event.Change{Event: alone}, `{"id":"a","name":"opened","entity_id":null,"occurred_at":"1970-01-01T00:00:00.000Z","attributes":{"a":1.0,"b":"\u00e9"},"created_at":"2026-01-02T15:04:05.678Z"}`},
		{event.Change{Event: event.Event{ID: "a", CreatedAt: later}, Reason: "filter"}, `{"id":"a","created_at":"2026-01-02T15:04:05.678Z","deleted":true,"reason":"filter"}`},
	} {
		if got, err := tt.c.AppendJSON([]byte("before")); err != nil || string(got) != "before"+tt.want {
			t.Errorf("got  %s, error %v\nwant %s", got, err, tt.want)
		}
		var again event.Change
		if err := json.Unmarshal([]byte(tt.want), &again); err != nil || !reflect.DeepEqual(again, tt.c) {
			t.Errorf("%s: read %+v, error %v", tt.want, again, err)
		}
	}
}

// A client encodes what the service parses.
func TestADraftIsParsedAsItIsEncoded(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	for _, d := range []event.Draft{
		{Name: "n", Attributes: record.Attributes("{}")},
		{ID: "a", Name: "n", EntityID: "e", OccurredAt: &at, Attributes: record.Attributes(`{"n":1.50}`)},
	} {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := event.Parse(text); err != nil || !reflect.DeepEqual(got, d) {
			t.Errorf("%s: parsed %+v, error %v", text, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	whole := event.Event{ID: "a", Name: "n", EntityID: "e", OccurredAt: at, Attributes: record.Attributes(`{"n":1.50,"s":"\u0041"}`), CreatedAt: at}
	text, err := whole.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		want event.Draft
	}{
		{string(text), event.Draft{ID: "a", Name: "n", EntityID: "e", OccurredAt: &at, Attributes: whole.Attributes}},
		{`{"name":"n"}`, event.Draft{Name: "n", Attributes: record.Attributes("{}")}},
		{`{"name":"n","id":null,"entity_id":null,"occurred_at":null,"attributes":null,"created_at":[]}`, event.Draft{Name: "n", Attributes: record.Attributes("{}")}},
		{`{"name":"n","occurred_at":"1970-01-01T01:00:00+01:00"}`, event.Draft{Name: "n", OccurredAt: &record.Time{}, Attributes: record.Attributes("{}")}},
		{` { "attributes" : { "a" : [ 1 , null ] } , "name":"n" } `, event.Draft{Name: "n", Attributes: record.Attributes(`{"a":[1,null]}`)}},
	} {
		if got, err := event.Parse([]byte(tt.text), "created_at"); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, error %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		`{}`: "name is required", `{"name":null}`: "name is required", `{"name":""}`: "name is required", `{"name":5}`: "name must be a string",
		`{"name":"n","id":""}`: "id must be 1 to 128", `{"name":"n","entity_id":""}`: "entity_id must be 1 to 128", `{"name":"n","attributes":[]}`: "attributes must be a JSON object",
		`{"name":"n","occurred_at":5}`: "occurred_at must be a string", `{"name":"n","occurred_at":"now"}`: "occurred_at is not an RFC 3339 date-time",
		`{"name":"n","type":"t"}`: "type is not a field here", `{"name":"n","type":null}`: "type is not a field here", `{"Name":"n"}`: "Name is not a field",
		`{"name":[],"entity_id":"a b","x":1}`: "name must be a string; entity_id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither \".\" nor \"..\"; x is not a field here",
	} {
		got, err := event.Parse([]byte(text), "created_at")
		if record.CodeOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
	if got, err := event.Parse([]byte(`{"id"`)); record.CodeOf(err) != record.Malformed {
		t.Errorf("%+v, error %v", got, err)
	}
}
