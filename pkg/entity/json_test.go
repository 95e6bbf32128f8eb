package entity_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// checkJSON compares what AppendJSON writes with what the struct tags say.
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
			return // no store holds such attributes
		}
		const century = 100 * 365 * 24 * 3600e3
		checkJSON(t, entity.Entity{ID: id, Type: typ, Attributes: record.Attributes(object),
			CreatedAt: record.TimeOf(time.UnixMilli(created % century)), UpdatedAt: record.TimeOf(time.UnixMilli(created%century + age%century))})
	})
}
