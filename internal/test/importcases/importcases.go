// Package importcases reads pkg/importfile/testdata/cases.json: files that people import, and what
// becomes of each row. The package importfile, the command and the dashboard must agree with it.
//
// The file is an array of Case. Its expectations are written by hand.
package importcases

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/importfile"
)

// Case is a file. Exactly one of Text, Base64 and Parts has its content, unless it is empty.
type Case struct {
	Name        string                 `json:"name"`
	Description importfile.Description `json:"description"`
	Text        string                 `json:"text"`
	Base64      []byte                 `json:"base64"`
	Parts       []Part                 `json:"parts"`

	Records []Record `json:"records"` // what is sent, in order
	Rejects []Reject `json:"rejects"` // in order
	Error   string   `json:"error"`   // part of the error that ends the reading, after all records and rejects; "" for none
}

// Part is a text that is repeated.
type Part struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

// Record is what is sent for a row. If it has no id, SeededID makes one of the SHA-256 of the
// file, in hexadecimal, and the line.
type Record struct {
	Line   int64          `json:"line"`
	Record jsontext.Value `json:"record"`
}

type Reject struct {
	Line     int64  `json:"line"`
	LastLine int64  `json:"last_line"`
	Reason   string `json:"reason"` // part of the reason
}

// Load reads the cases. root is the path of the module.
func Load(t *testing.T, root string) (cases []Case) {
	t.Helper()
	text, err := os.ReadFile(root + "/pkg/importfile/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		for j := range cases[i].Records {
			cases[i].Records[j].addID(cases[i].Content())
		}
	}
	return cases
}

// Content returns the bytes of the file.
func (c Case) Content() []byte {
	b := append([]byte(c.Text), c.Base64...)
	for _, p := range c.Parts {
		b = append(b, strings.Repeat(p.Text, p.Times)...)
	}
	return b
}

func (r *Record) addID(file []byte) {
	if bytes.HasPrefix(r.Record, []byte(`{"id":`)) {
		return
	}
	sum := sha256.Sum256(file)
	id := importfile.SeededID(hex.EncodeToString(sum[:]), r.Line)
	r.Record = jsontext.Value(fmt.Sprintf(`{"id":%q,%s`, id, r.Record[1:]))
}

// Check compares what was sent and rejected with c. The texts of rejects are reasons.
func (c Case) Check(t *testing.T, records []Record, rejects []Reject, err error) {
	t.Helper()
	if (err != nil) != (c.Error != "") || err != nil && !strings.Contains(err.Error(), c.Error) {
		t.Errorf("error %v, want %q", err, c.Error)
	}
	if len(records) != len(c.Records) || len(rejects) != len(c.Rejects) {
		t.Fatalf("%d records and %d rejects, want %d and %d: %v, %+v", len(records), len(rejects), len(c.Records), len(c.Rejects), records, rejects)
	}
	for i, want := range c.Records {
		if got := records[i]; got.Line != 0 && got.Line != want.Line || canonical(t, got.Record) != canonical(t, want.Record) {
			t.Errorf("line %d is sent as %s, want line %d, %s", got.Line, got.Record, want.Line, want.Record)
		}
	}
	for i, want := range c.Rejects {
		if got := rejects[i]; got.Line != want.Line || got.LastLine != want.LastLine || !strings.Contains(got.Reason, want.Reason) {
			t.Errorf("rejected: %+v, want %+v", got, want)
		}
	}
}

// canonical returns a record in which only the digits of numbers distinguish equal values.
func canonical(t *testing.T, v jsontext.Value) string {
	t.Helper()
	v = v.Clone()
	if err := v.Format(jsontext.PreserveRawStrings(false), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true)); err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return string(v)
}
