package event_test

import (
	"bytes"
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

// checkJSON compares the results of AppendJSON and json.Marshal.
func checkJSON(t *testing.T, e event.Event) {
	t.Helper()
	want, wantErr := json.Marshal(e, jsontext.PreserveRawStrings(true))
	got, err := e.AppendJSON([]byte("before"))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%+v: error %v, want %v", e, err, wantErr)
	}
	if err == nil && !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestAppendJSON(t *testing.T) {
	at, later := record.TimeOf(time.Unix(0, 0)), record.TimeOf(time.UnixMilli(1767366245678))
	for _, e := range []event.Event{
		{ID: "a", Name: "opened", EntityID: "ada", OccurredAt: at, Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9","c":[null,{}]}`), CreatedAt: later},
		{ID: "", Name: "\"\\/<>&\u2028\u2029\x7f", Attributes: record.Attributes(`{}`), OccurredAt: later, CreatedAt: at},
		{ID: "\x00\t\n\x1f", Name: "Zoë 😀\ufffd", EntityID: "a:b", Attributes: record.Attributes(`{"":"\ud83d\ude00\u003c"}`)},
		{ID: "a.b", Name: "a\"\\/<&>\u2028é😀\x7f\t", EntityID: "e", OccurredAt: at, Attributes: record.Attributes(`{"a":[1.50,-0,1E400,"\u0041\/` + "\u2028" + `"],"b":{}}`), CreatedAt: later},
		{ID: "\xff", Name: "n", Attributes: record.Attributes(`{}`)},
		{ID: "a", Name: "\xed\xa0\x80", Attributes: record.Attributes(`{}`)},
	} {
		checkJSON(t, e)
	}
	for _, attributes := range []string{"", "{", "}", "[]", `"a"`, "null"} {
		e := event.Event{ID: "a", Name: "t", Attributes: record.Attributes(attributes)}
		if got, err := e.AppendJSON(nil); err == nil {
			t.Errorf("attributes %q were written: %s", attributes, got)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("a", "opened", "ada", `{"a":1.0,"b":"\u00e9","c":[null,{}]}`, int64(1767366245678), int64(0))
	f.Add("\x00\t\n\x1f", "\"\\/<>&\u2028\u2029\x7f", "", `{"":"\ud83d\ude00"}`, int64(-1), int64(1e6))
	f.Add("\xff", "\xed\xa0\x80", "a:b", `{"a":"\u003c"}`, int64(1), int64(0))
	f.Fuzz(func(t *testing.T, id, name, entityID, attributes string, occurred, age int64) {
		object := jsontext.Value(attributes)
		if !object.IsValid() || object.Kind() != '{' || object.Compact() != nil {
			return // skip attributes that no store ever holds
		}
		if record.CheckID(entityID) != nil {
			entityID = ""
		}
		const century = 100 * 365 * 24 * 3600e3
		checkJSON(t, event.Event{ID: id, Name: name, EntityID: event.OptionalID(entityID), Attributes: record.Attributes(object),
			OccurredAt: record.TimeOf(time.UnixMilli(occurred % century)), CreatedAt: record.TimeOf(time.UnixMilli(occurred%century + age%century))})
	})
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
		``: "not one well-formed JSON object", `{"id"`: "not one well-formed JSON object", `{} {}`: "not one well-formed JSON object", `[]`: "not an object", `null`: "not an object",
		`{"name":"a","name":"b"}`: "duplicate", "{\"name\":\"\xff\"}": "UTF-8", `{"name":"\ud800"}`: "surrogate", `{"name":"n","attributes":{"a":1,"a":2}}`: "duplicate",
		`{}`: "name is required", `{"name":null}`: "name is required", `{"name":""}`: "name is required", `{"name":5}`: "name must be a string",
		`{"name":"n","id":""}`: "id must be 1 to 128", `{"name":"n","entity_id":""}`: "entity_id must be 1 to 128", `{"name":"n","attributes":[]}`: "attributes must be a JSON object",
		`{"name":"n","occurred_at":5}`: "occurred_at must be a string", `{"name":"n","occurred_at":"now"}`: "occurred_at is not an RFC 3339 date-time",
		`{"name":"n","type":"t"}`: "type is not a field here", `{"name":"n","type":null}`: "type is not a field here", `{"Name":"n"}`: "Name is not a field",
		`{"name":[],"entity_id":"a b","x":1}`: "name must be a string; entity_id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither \".\" nor \"..\"; x is not a field here",
	} {
		got, err := event.Parse([]byte(text), "created_at")
		if record.KindOf(err) != kindOf(want) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
}

// kindOf returns the expected kind of an error whose text contains want.
func kindOf(want string) record.Kind {
	for _, syntax := range []string{"well-formed", "not an object", "duplicate", "UTF-8", "surrogate"} {
		if strings.Contains(want, syntax) {
			return record.Malformed
		}
	}
	return record.Invalid
}
