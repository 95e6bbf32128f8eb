package event_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The tests of package record check how members are written.
func TestAppendJSON(t *testing.T) {
	at, later := record.TimeOf(time.Unix(0, 0)), record.TimeOf(time.UnixMilli(1767366245678))
	for _, entityID := range []event.OptionalID{"", "ada"} {
		e := event.Event{ID: "a", Name: "opened", EntityID: entityID, OccurredAt: at, Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9"}`), CreatedAt: later}
		want, err := json.Marshal(e, jsontext.PreserveRawStrings(true))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.AppendJSON([]byte("before")); err != nil || string(got) != "before"+string(want) {
			t.Errorf("got  %s, error %v\nwant %s", got, err, want)
		}
	}
	object := record.Attributes("{}")
	for _, e := range []event.Event{{ID: "\xff", Name: "n", Attributes: object}, {ID: "a", Name: "\xff", Attributes: object}, {ID: "a", Name: "n", Attributes: record.Attributes("[]")}} {
		if got, err := e.AppendJSON(nil); err == nil {
			t.Errorf("%+v was written: %s", e, got)
		}
	}
}

func TestColumnsAreTheStructTags(t *testing.T) {
	var tags []string
	for f := range reflect.TypeFor[event.Event]().Fields() {
		if tag := f.Tag.Get("json"); tag != "attributes" && tag != "-" {
			tags = append(tags, tag)
		}
	}
	if got := event.Columns(); !slices.Equal(got, tags) {
		t.Errorf("columns %q, struct tags %q", got, tags)
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
		if record.KindOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
	if got, err := event.Parse([]byte(`{"id"`)); record.KindOf(err) != record.Malformed {
		t.Errorf("%+v, error %v", got, err)
	}
}
