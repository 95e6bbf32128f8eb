package exportjob

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// The lines are made apart from the JSON of the records' types, which the API
// shows: they must not differ.
func TestALineOfNDJSONIsTheJSONOfItsRecord(t *testing.T) {
	t.Parallel()
	at, later := record.Time{}, record.TimeOf(record.Time{}.Time().AddDate(56, 1, 2).Add(3e6))
	const odd = "a\"\\/<&>\u2028é😀\x7f\t"
	attributes := record.Attributes(`{"a":[1.50,-0,1E400,"\u0041\/` + "\u2028" + `"],"b":{}}`)
	for name, value := range map[string]any{
		"entity":                    entity.Entity{ID: "a:b", Type: odd, Attributes: attributes, CreatedAt: at, UpdatedAt: later},
		"event":                     event.Event{ID: "a.b", Name: odd, EntityID: "e", OccurredAt: at, Attributes: attributes, CreatedAt: later},
		"event of no entity":        event.Event{ID: "a", Name: "n", OccurredAt: later, Attributes: record.Attributes(`{}`), CreatedAt: at},
		"entity without attributes": entity.Entity{ID: "a", Type: "t", Attributes: record.Attributes(`{}`), CreatedAt: at, UpdatedAt: at},
	} {
		want, err := json.Marshal(value, jsontext.PreserveRawStrings(true))
		if err != nil {
			t.Fatal(err)
		}
		e := new(ndjsonEncoder)
		for range 2 { // the second time over what the first has left
			var got bytes.Buffer
			if err := e.write(&got, row{value: value}); err != nil || got.String() != string(want)+"\n" {
				t.Errorf("%s: %v\ngot  %swant %s", name, err, got.String(), want)
			}
		}
	}
	if err := new(ndjsonEncoder).write(new(bytes.Buffer), row{value: event.Event{ID: "\xff"}}); err == nil {
		t.Error("no error of a record that is no JSON")
	}
}
