package record_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

// written is an object with every kind of member that an ObjectWriter can write.
type written struct {
	Text       string            `json:"text"`
	Optional   *string           `json:"optional"`
	At         record.Time       `json:"at"`
	Done       bool              `json:"done"`
	Attributes record.Attributes `json:"attributes"`
}

func (v written) appendJSON(b []byte) ([]byte, error) {
	w := record.NewObjectWriter(b)
	w.String("text", v.Text)
	optional := ""
	if v.Optional != nil {
		optional = *v.Optional
	}
	w.OptionalString("optional", optional)
	w.Time("at", v.At)
	w.True("done")
	w.Attributes("attributes", v.Attributes)
	return w.End()
}

func checkJSON(t *testing.T, text, optional string, at record.Time, attributes string) {
	t.Helper()
	v := written{text, nil, at, true, record.Attributes(attributes)}
	if optional != "" {
		v.Optional = &optional
	}
	want, wantErr := json.Marshal(v, jsontext.PreserveRawStrings(true))
	got, err := v.appendJSON([]byte("before"))
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%+v: error %v, want %v", v, err, wantErr)
	}
	if err == nil && !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestObjectWriter(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	checkJSON(t, "a", "person", at, `{"a":1.0,"b":"\u00e9","c":[null,{}]}`)
	checkJSON(t, "", "\"\\/<>&\u2028\u2029\x7f", record.Time{}, `{}`)
	checkJSON(t, "\x00\t\n\x1f", "Zoë 😀\ufffd", at, `{"":"\ud83d\ude00\u003c"}`)
	checkJSON(t, "a\"\\/<&>\u2028é😀\x7f\t", "", at, `{"a":[1.50,-0,1E400,"\u0041\/`+"\u2028"+`"],"b":{}}`)
	checkJSON(t, "\xff", "", at, `{}`)
	checkJSON(t, "a", "\xed\xa0\x80", at, `{}`)
	for _, attributes := range []string{"", "{", "}", "[]", `"a"`, "null"} {
		if got, err := (written{Attributes: record.Attributes(attributes)}).appendJSON(nil); err == nil {
			t.Errorf("attributes %q were written: %s", attributes, got)
		}
	}
}

func FuzzObjectWriter(f *testing.F) {
	f.Add("a", "person", `{"a":1.0,"b":"\u00e9","c":[null,{}]}`, int64(1767366245678))
	f.Add("\x00\t\n\x1f", "\"\\/<>&\u2028\u2029\x7f", `{"":"\ud83d\ude00"}`, int64(-1))
	f.Add("\xff", "\xed\xa0\x80", `{"a":"\u003c"}`, int64(1))
	f.Fuzz(func(t *testing.T, text, optional, attributes string, at int64) {
		object := jsontext.Value(attributes)
		if !object.IsValid() || object.Kind() != '{' || object.Compact() != nil {
			return // no store ever contains such attributes
		}
		checkJSON(t, text, optional, record.TimeOf(time.UnixMilli(at%(200*365*24*3600e3))), string(object))
	})
}

func TestDecodeRejectsMalformedJSON(t *testing.T) {
	for text, want := range map[string]string{
		``: "not one well-formed JSON object", `{"id"`: "not one well-formed JSON object", `{} {}`: "not one well-formed JSON object",
		"\ufeff{}": "well-formed", `{"id":"n",}`: "well-formed", `{'id':'n'}`: "well-formed", `{"attributes":{"n":NaN}}`: "well-formed", `{"attributes":{"n":01}}`: "well-formed", "{\"id\":\"a\nb\"}": "well-formed",
		`[]`: "not an object", `null`: "not an object", "{\"id\":\"\xff\"}": "UTF-8",
		`{"id":"a","id":"b"}`: "duplicate", `{"attributes":{"a":1,"a":2}}`: "duplicate", `{"attributes":{"a":1,"\u0061":2}}`: "duplicate",
		`{"id":"\ud800"}`: "surrogate", `{"id":"\udc00"}`: "surrogate", `{"id":"\ud83d\ud83d"}`: "surrogate",
	} {
		var id string
		var attributes record.Attributes
		err := record.Decoders{"id": record.Text(&id, record.CheckID), "attributes": record.Object(&attributes)}.Decode([]byte(text))
		if record.KindOf(err) != record.Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
