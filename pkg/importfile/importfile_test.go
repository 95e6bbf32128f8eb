package importfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"sluice/internal/test/importcases"
	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

func decode(label string, r io.Reader) (io.Reader, error) {
	found, err := htmlindex.Get(label)
	if err != nil {
		return nil, err
	}
	return transform.NewReader(r, unicode.BOMOverride(found.NewDecoder())), nil
}

// read imports a file as a caller does.
func read(file []byte, d importfile.Description) (rows []importfile.Row, err error) {
	sum := sha256.Sum256(file)
	seed := hex.EncodeToString(sum[:])
	o := importfile.Options{ID: func(line int64) string { return importfile.SeededID(seed, line) }, Decode: decode}
	if err := d.Check(); err != nil {
		return nil, err
	}
	d, err = importfile.ChooseTypes(bytes.NewReader(file), d, o, nil)
	if err != nil {
		return nil, err
	}
	r, err := importfile.Open(bytes.NewReader(file), d, o)
	if err != nil {
		return nil, err
	}
	for {
		row, err := r.Read()
		switch {
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestFilesThatPeopleImport(t *testing.T) {
	t.Parallel()
	for _, c := range importcases.Load(t, "../..") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			file := c.Content()
			rows, err := read(file, c.Description)
			var records []importcases.Record
			var rejects []importcases.Reject
			var end int64
			for _, row := range rows {
				if row.Offset < end || row.Offset > int64(len(file)) {
					t.Errorf("line %d ends at %d after %d of %d", row.Line, row.Offset, end, len(file))
				}
				end = row.Offset
				if row.Err != nil {
					rejects = append(rejects, importcases.Reject{Line: row.Line, LastLine: row.LastLine, Reason: row.Err.Error()})
				} else {
					records = append(records, importcases.Record{Line: row.Line, Record: row.JSON()})
				}
			}
			c.Check(t, records, rejects, err)
		})
	}
}

func TestSeededID(t *testing.T) {
	t.Parallel()
	// computed with Python's hashlib and uuid
	if got, want := importfile.SeededID("seed", 7), "5972ede2-4887-8c95-8337-4b3feb457ef8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADescriptionIsReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"resource":"entity","format":"csv","colums":[]}`:                                                        `unknown field "colums"`,
		`{"resource":"entity","format":"csv"} {}`:                                                                 "more text follows",
		`{"resource":"people","format":"csv"}`:                                                                    `must be entity or event, not "people"`,
		`{"resource":"entity","format":"xml"}`:                                                                    "must be ndjson, csv or json",
		`{"resource":"entity","format":"csv","time":"now"}`:                                                       "only for events",
		`{"resource":"event","format":"csv","time":"noon"}`:                                                       "can only be now",
		`{"resource":"event","format":"csv","time_formats":["%d.%m"]}`:                                            "lacks the year",
		`{"resource":"event","format":"csv","time_formats":["%d.%m.%Y %Z"]}`:                                      "ambiguous",
		`{"resource":"event","format":"csv","time_formats":["%d.%m.%Y"],"time_zone":"Mars"}`:                      `"Mars" is unknown`,
		`{"resource":"event","format":"csv","time_formats":["dd.mm.yyyy"]}`:                                       "lacks the year",
		`{"resource":"event","format":"csv","columns":[{"source":"a","field":"id"},{"source":"a"}]}`:              "described twice",
		`{"resource":"event","format":"csv","columns":[{"source":"a","field":"id"},{"source":"b","field":"id"}]}`: `both columns "a" and "b" become the field id`,
		`{"resource":"event","format":"csv","columns":[{"source":"a","field":"created_at"}]}`:                     "not a field",
	} {
		if _, err := importfile.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func ExampleSurvey() {
	d := importfile.Description{Resource: "event", Format: "csv", Delimiter: ";", Name: "order_placed", TimeFormats: []string{"%d.%m.%Y"}, TimeZone: "Europe/Berlin",
		Columns: []importfile.Column{{Source: "Nr", Field: "id"}, {Source: "Datum", Field: "occurred_at"}}}
	file := "Nr;Datum;Betrag\n1001;01.03.2026;17\n1002;31.02.2026;5\n"
	report, err := importfile.Survey(strings.NewReader(file), d, importfile.Options{}, nil)
	fmt.Println(string(report.First), err)
	fmt.Println(report.Rejects[0].Count, report.Rejects[0].Reason)
	// Output:
	// {"id":"1001","name":"order_placed","occurred_at":"2026-02-28T23:00:00.000Z","attributes":{"Betrag":17}} <nil>
	// 1 occurred_at "31.02.2026" does not fit the time format %d.%m.%Y
}

func FuzzCSV(f *testing.F) {
	f.Add("id,name,attributes.a\r\nx,\"y\r\n\",'=1\r\n")
	f.Add("id,attributes\n\"a\"b,{}\n\"")
	f.Add("sep=;\nid;type\r\r\n")
	f.Fuzz(func(t *testing.T, file string) {
		rows, err := read([]byte(file), importfile.Description{Resource: "entity", Format: "csv"})
		if err != nil && len(rows) == 0 {
			return
		}
		var line, offset int64
		for _, row := range rows {
			if row.Line <= line || row.Offset < offset {
				t.Fatalf("line %d, offset %d after %d, %d", row.Line, row.Offset, line, offset)
			}
			line, offset = row.Line, row.Offset
			if _, err := record.Pairs(row.JSON()); row.Err == nil && err != nil {
				t.Fatalf("%s: %v", row.JSON(), err)
			}
		}
	})
}
