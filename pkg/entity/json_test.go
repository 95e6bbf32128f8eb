package entity_test

import (
	"bytes"
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

// checkJSON compares the results of AppendJSON and json.Marshal.
func checkJSON(t *testing.T, e entity.Entity) {
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
	for _, e := range []entity.Entity{
		{ID: "a", Type: "person", Attributes: record.Attributes(`{"a":1.0,"b":"\u00e9","c":[null,{}]}`), CreatedAt: at, UpdatedAt: later},
		{ID: "", Type: "\"\\/<>&\u2028\u2029\x7f", Attributes: record.Attributes(`{}`), CreatedAt: later, UpdatedAt: later},
		{ID: "\x00\t\n\x1f", Type: "Zoë 😀\ufffd", Attributes: record.Attributes(`{"":"\ud83d\ude00\u003c"}`)},
		{ID: "a:b", Type: "a\"\\/<&>\u2028é😀\x7f\t", Attributes: record.Attributes(`{"a":[1.50,-0,1E400,"\u0041\/` + "\u2028" + `"],"b":{}}`), CreatedAt: at, UpdatedAt: later},
		{ID: "\xff", Type: "t", Attributes: record.Attributes(`{}`)},
		{ID: "a", Type: "\xed\xa0\x80", Attributes: record.Attributes(`{}`)},
	} {
		checkJSON(t, e)
	}
	for _, attributes := range []string{"", "{", "}", "[]", `"a"`, "null"} {
		e := entity.Entity{ID: "a", Type: "t", Attributes: record.Attributes(attributes)}
		if got, err := e.AppendJSON(nil); err == nil {
			t.Errorf("attributes %q were written: %s", attributes, got)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("a", "person", `{"a":1.0,"b":"\u00e9","c":[null,{}]}`, int64(1767366245678), int64(0))
	f.Add("\x00\t\n\x1f", "\"\\/<>&\u2028\u2029\x7f", `{"":"\ud83d\ude00"}`, int64(-1), int64(1e6))
	f.Add("\xff", "\xed\xa0\x80", `{"a":"\u003c"}`, int64(1), int64(0))
	f.Fuzz(func(t *testing.T, id, typ, attributes string, created, age int64) {
		object := jsontext.Value(attributes)
		if !object.IsValid() || object.Kind() != '{' || object.Compact() != nil {
			return // skip attributes that no store ever holds
		}
		const century = 100 * 365 * 24 * 3600e3
		checkJSON(t, entity.Entity{ID: id, Type: typ, Attributes: record.Attributes(object),
			CreatedAt: record.TimeOf(time.UnixMilli(created % century)), UpdatedAt: record.TimeOf(time.UnixMilli(created%century + age%century))})
	})
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
		want entity.Entity
	}{
		{string(text), entity.Entity{ID: "a", Type: "t", Attributes: whole.Attributes}},
		{`{}`, entity.Entity{Type: "entity", Attributes: record.Attributes("{}")}},
		{`{"id":null,"type":null,"attributes":null,"created_at":null,"updated_at":5}`, entity.Entity{Type: "entity", Attributes: record.Attributes("{}")}},
		{` { "attributes" : { "a" : [ 1 , null ] } } `, entity.Entity{Type: "entity", Attributes: record.Attributes(`{"a":[1,null]}`)}},
	} {
		if got, err := entity.Parse([]byte(tt.text), "created_at", "updated_at"); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, error %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		``: "not one well-formed JSON object", `{"id"`: "not one well-formed JSON object", `{} {}`: "not one well-formed JSON object", `[]`: "not an object", `null`: "not an object",
		`{"id":"a","id":"b"}`: "duplicate", "{\"type\":\"\xff\"}": "UTF-8", `{"type":"\ud800"}`: "surrogate", `{"attributes":{"a":1,"a":2}}`: "duplicate",
		`{"id":""}`: "id must be 1 to 128", `{"id":5}`: "id must be a string", `{"type":""}`: "type must be 1 to 128", `{"attributes":[]}`: "attributes must be a JSON object",
		`{"name":"n"}`: "name is not a field here", `{"name":null}`: "name is not a field here", `{"ID":"a"}`: "ID is not a field",
		`{"id":"a b","type":[],"x":1}`: "id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither \".\" nor \"..\"; type must be a string; x is not a field here",
	} {
		got, err := entity.Parse([]byte(text), "created_at", "updated_at")
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
