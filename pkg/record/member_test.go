package record_test

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

// written is an object with every type of value that a Member can have.
type written struct {
	Text       string            `json:"text"`
	Optional   *string           `json:"optional"`
	Omitted    string            `json:"omitted,omitzero"`
	At         record.Time       `json:"at"`
	Later      record.Time       `json:"later,omitzero"`
	Done       bool              `json:"done,omitzero"`
	Attributes record.Attributes `json:"attributes"`
}

func (v *written) members() []record.Member {
	if v.Optional == nil {
		v.Optional = new(string)
	}
	return []record.Member{
		{Name: "text", Value: &v.Text, Check: record.CheckName},
		{Name: "optional", Value: v.Optional, Check: record.CheckID, Null: true},
		{Name: "omitted", Value: &v.Omitted, Check: record.CheckName, Omit: true},
		{Name: "at", Value: &v.At},
		{Name: "later", Value: &v.Later, Omit: true, ByService: true},
		{Name: "done", Value: &v.Done, Omit: true, ByService: true},
		{Name: "attributes", Value: &v.Attributes},
	}
}

func checkJSON(t *testing.T, text, optional string, at record.Time, attributes string) {
	t.Helper()
	v := written{Text: text, Omitted: optional, At: at, Later: at, Done: optional != "", Attributes: record.Attributes(attributes)}
	if optional != "" {
		v.Optional = &optional
	}
	want, wantErr := json.Marshal(v, jsontext.PreserveRawStrings(true))
	got, err := record.AppendJSON([]byte("before"), v.members())
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%+v: error %v, want %v", v, err, wantErr)
	}
	if err != nil {
		return
	}
	if !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var again written
	if err := record.ReadJSON(want, again.members()); err != nil || !reflect.DeepEqual(again, v) {
		t.Errorf("%s: read %+v, error %v, want %+v", want, again, err, v)
	}
}

func TestAppendJSON(t *testing.T) {
	at := record.TimeOf(time.UnixMilli(1767366245678))
	checkJSON(t, "a", "person", at, `{"a":1.0,"b":"\u00e9","c":[null,{}]}`)
	checkJSON(t, "", "\"\\/<>&\u2028\u2029\x7f", record.Time{}, `{}`)
	checkJSON(t, "\x00\t\n\x1f", "Zoë 😀\ufffd", at, `{"":"\ud83d\ude00\u003c"}`)
	checkJSON(t, "a\"\\/<&>\u2028é😀\x7f\t", "", at, `{"a":[1.50,-0,1E400,"\u0041\/`+"\u2028"+`"],"b":{}}`)
	checkJSON(t, "\xff", "", at, `{}`)
	checkJSON(t, "a", "\xed\xa0\x80", at, `{}`)
	for _, attributes := range []string{"", "{", "}", "[]", `"a"`, "null"} {
		v := written{Attributes: record.Attributes(attributes)}
		if got, err := record.AppendJSON(nil, v.members()); err == nil {
			t.Errorf("attributes %q were written: %s", attributes, got)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
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

func TestReadJSON(t *testing.T) {
	v := written{Text: "kept", At: record.TimeOf(time.UnixMilli(1))}
	if err := record.ReadJSON([]byte(`{"unknown":[],"text":null,"omitted":"a b","done":true}`), v.members()); err != nil || v.Text != "kept" || v.Omitted != "a b" || !v.Done || v.At != record.TimeOf(time.UnixMilli(1)) {
		t.Errorf("read %+v, error %v", v, err)
	}
	for _, object := range []string{``, `[]`, `{"text":5}`, `{"at":"now"}`, `{"done":1}`, `{"attributes":[]}`} {
		if err := record.ReadJSON([]byte(object), v.members()); err == nil {
			t.Errorf("%s was read", object)
		}
	}
}

func TestParseAndCheck(t *testing.T) {
	var v written
	given, err := record.Parse([]byte(`{"text":"t","at":null,"optional":"a","later":"x"}`), v.members(), "later")
	if err != nil || v.Text != "t" || *v.Optional != "a" || !given["text"] || given["at"] || given["later"] {
		t.Errorf("parsed %+v, given %v, error %v", v, given, err)
	}
	for object, want := range map[string]string{
		`{"done":true}`:      "done is not a field here; the fields are at, attributes, omitted, optional, text",
		`{"optional":""}`:    "optional must be 1 to 128",
		`{"text":"","at":5}`: "text must be 1 to 128 characters; at must be a string",
	} {
		if _, err := record.Parse([]byte(object), v.members()); record.CodeOf(err) != record.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", object, err, want)
		}
	}
	v = written{Text: strings.Repeat("x", 129)}
	if wrong := record.Check(v.members()); len(wrong) != 1 || wrong[0].Field != "text" {
		t.Errorf("wrong are %v", wrong)
	}
	if got, want := record.Columns(v.members()), []string{"text", "optional", "omitted", "at", "later", "done"}; !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
	if got, want := record.SetByService(v.members()), []string{"later", "done"}; !slices.Equal(got, want) {
		t.Errorf("set by the service: %v, want %v", got, want)
	}
}

func TestSame(t *testing.T) {
	base := func() written { return written{Text: "a", Attributes: record.Attributes(`{"a":1,"b":2}`)} }
	for i, change := range []func(*written){
		func(v *written) { v.Attributes = record.Attributes(`{"b":2,"a":1}`) },
		func(v *written) { v.Later = record.TimeOf(time.Now()) },
		func(v *written) { v.Text = "b" },
		func(v *written) { v.At = record.TimeOf(time.Now()) },
		func(v *written) { v.Attributes = record.Attributes(`{"a":1}`) },
		func(v *written) { v.Optional = new("x") },
	} {
		a, b := base(), base()
		change(&b)
		if got, want := record.Same(a.members(), b.members()), i < 2; got != want {
			t.Errorf("change %d: same %v", i, got)
		}
	}
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
		if record.CodeOf(err) != record.Malformed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
