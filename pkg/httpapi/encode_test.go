package httpapi_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/httpapi"
	"sluice/pkg/record"
)

// Records are written by hand, to the byte as their types and tags say.
func FuzzRecordsAsJSON(f *testing.F) {
	f.Add("a", "person", "ada", `{"a":1.0,"b":"\u00e9","c":[null,{}]}`, "2026-01-02T15:04:05.678Z", "")
	f.Add("", "\"\\/<>&\u2028\u2029\x7f", "", `{}`, "0000-01-01T00:00:00Z", "cursor")
	f.Add("\x00\t\n\x1f", "Zoë 😀\ufffd", "a:b", `{"":"\ud83d\ude00"}`, "9999-12-31T23:59:59.999Z", "a-_")
	f.Add("\xff", "\xed\xa0\x80", "", `{"a":"\u003c"}`, "1969-12-31T23:59:59.999Z", "")
	f.Fuzz(func(t *testing.T, id, name, entityID, attributes, at, cursor string) {
		object := jsontext.Value(attributes)
		if !object.IsValid() || object.Kind() != '{' || object.Compact() != nil {
			return // no store holds such attributes
		}
		time, err := record.ParseTime(at)
		if err != nil {
			return
		}
		if record.CheckID(entityID) != nil {
			entityID = ""
		}
		var next *string
		if cursor != "" {
			next = &cursor
		}
		one := entity.Entity{ID: id, Type: name, Attributes: record.Attributes(object), CreatedAt: time, UpdatedAt: record.TimeOf(time.Time().Add(1e9))}
		other := event.Event{ID: id, Name: name, EntityID: event.OptionalID(entityID), OccurredAt: time, Attributes: record.Attributes(object), CreatedAt: record.TimeOf(time.Time().Add(-1e6))}
		for _, body := range []any{
			one, other,
			httpapi.ListBody[entity.Entity]{Data: []entity.Entity{}, NextCursor: next},
			httpapi.ListBody[entity.Entity]{Data: []entity.Entity{one, one}, NextCursor: next},
			httpapi.ListBody[event.Event]{Data: []event.Event{other, other, other}, NextCursor: next},
		} {
			want, wantErr := json.Marshal(body, jsontext.PreserveRawStrings(true))
			got, err := httpapi.AppendJSON([]byte("before"), body)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%+v: error %v, want %v", body, err, wantErr)
			}
			if err == nil && !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
	})
}

func TestWhatIsNoObjectIsNotSentAsAttributes(t *testing.T) {
	for _, attributes := range []string{"", "{", "[]", `"a"`, "null"} {
		if got, err := httpapi.AppendJSON(nil, entity.Entity{ID: "a", Type: "t", Attributes: record.Attributes(attributes)}); err == nil {
			t.Errorf("%q was sent: %s", attributes, got)
		}
	}
}
