package entity_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// The tests of package record check how members are written.
func TestAppendJSON(t *testing.T) {
	at, later := record.TimeOf(time.Unix(0, 0)), record.TimeOf(time.UnixMilli(1767366245678))
	e := entity.Entity{ID: "a", Type: "person", Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9"}`), CreatedAt: at, UpdatedAt: later}
	want, err := json.Marshal(e, jsontext.PreserveRawStrings(true))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.AppendJSON([]byte("before")); err != nil || string(got) != "before"+string(want) {
		t.Errorf("got  %s, error %v\nwant %s", got, err, want)
	}
	for _, e := range []entity.Entity{{ID: "\xff", Type: "t", Attributes: e.Attributes}, {ID: "a", Type: "\xff", Attributes: e.Attributes}, {ID: "a", Type: "t", Attributes: record.Attributes("[]")}} {
		if got, err := e.AppendJSON(nil); err == nil {
			t.Errorf("%+v was written: %s", e, got)
		}
	}
}

func TestColumnsAreTheStructTags(t *testing.T) {
	var tags []string
	for f := range reflect.TypeFor[entity.Entity]().Fields() {
		if tag := f.Tag.Get("json"); tag != "attributes" {
			tags = append(tags, tag)
		}
	}
	if got := entity.Columns(); !slices.Equal(got, tags) {
		t.Errorf("columns %q, struct tags %q", got, tags)
	}
}

func TestParse(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	whole := entity.Entity{ID: "a", Type: "t", Attributes: record.Attributes(`{"n":1.50,"s":"\u0041"}`), CreatedAt: at, UpdatedAt: at}
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
		if got, err := entity.Parse([]byte(tt.text), "created_at", "updated_at"); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, error %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		`{"id":""}`: "id must be 1 to 128", `{"id":5}`: "id must be a string", `{"type":""}`: "type must be 1 to 128", `{"attributes":[]}`: "attributes must be a JSON object",
		`{"name":"n"}`: "name is not a field here", `{"name":null}`: "name is not a field here", `{"ID":"a"}`: "ID is not a field",
		`{"id":"a b","type":[],"x":1}`: "id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither \".\" nor \"..\"; type must be a string; x is not a field here",
	} {
		got, err := entity.Parse([]byte(text), "created_at", "updated_at")
		if record.KindOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
	if got, err := entity.Parse([]byte(`{"id"`)); record.KindOf(err) != record.Malformed {
		t.Errorf("%+v, error %v", got, err)
	}
}
