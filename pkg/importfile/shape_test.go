package importfile

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

func TestFilesAsPeopleHaveThem(t *testing.T) {
	t.Parallel()
	utf16, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String("name\tattributes.city\nn\tKöln\n")
	if err != nil {
		t.Fatal(err)
	}
	windows, err := charmap.Windows1252.NewEncoder().String("name,attributes.a\nn,Köln – 5 €\n")
	if err != nil {
		t.Fatal(err)
	}
	orders := Description{Columns: columnsOf(map[string]string{"no": "id", "who": "entity_id", "at": "occurred_at", "note": ""}), Name: "order_placed"}
	german := Description{Delimiter: ";", TimeFormats: []string{"%d.%m.%Y %H:%M"}, TimeZone: "Europe/Berlin"}
	for _, tt := range []struct {
		name     string
		resource record.Resource
		format   record.Format
		shape    Description
		text     string
		want     []string // for each record: the JSON that is sent, or "!" and part of the error
	}{
		{"other columns", record.Event, record.CSV, orders, "no,who,at,amount,note\n1,ada,2026-01-02T15:04:05Z,4.50,x\n2,,2026-01-02T15:04:05Z,\"7\",\n", []string{
			`{"id":"1","name":"order_placed","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{"amount":4.50}}`,
			`{"id":"2","name":"order_placed","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{"amount":"7"}}`,
		}},
		{"other members", record.Event, record.NDJSON, orders, `{"no":1,"who":"ada","at":null,"amount":4.50,"note":"x","attributes":{"b":[1]},"attributes.c":true}` + "\n" + `{"name":"n","id":"i","no":"j"}` + "\n[]", []string{
			`{"id":"1","name":"order_placed","entity_id":"ada","attributes":{"b":[1],"amount":4.50,"c":true}}`,
			"!id is there twice, the second time from no", "!not an object",
		}},
		{"an attribute twice", record.Entity, record.JSON, Description{Columns: columnsOf(map[string]string{"a": "attributes.b"})}, `{"a":1,"b":2}`, []string{"!duplicate"}},
		{"attributes that are no object", record.Entity, record.JSON, Description{Columns: columnsOf(map[string]string{"a": "id"})}, `{"attributes":5,"b":2}`, []string{"!attributes must be a JSON object"}},
		{"attributes that are null", record.Entity, record.JSON, Description{Columns: columnsOf(map[string]string{"a": "id"})}, `{"attributes":null,"b":2}`, []string{`{"id":"line:1","attributes":{"b":2}}`}},
		{"an array", record.Entity, record.JSON, Description{Type: "person"}, "\xef\xbb\xbf [ {\"id\":\"a\"},\n{\"id\":\"b\",\"type\":\"t\"}, 5, {\"id\":\"c\",\"id\":\"c\"},[{}],{\"type\":null} ]\n", []string{
			`{"id":"a","type":"person","attributes":{}}`, `{"id":"b","type":"t","attributes":{}}`, "!not an object", "!duplicate", "!not an object", `{"id":"line:6","type":"person","attributes":{}}`,
		}},
		{"an empty array", record.Entity, record.JSON, Description{}, "[]", nil},
		{"objects without an array", record.Entity, record.JSON, Description{}, "{\"id\":\"a\"}\n{\"id\":\n\"b\"}", []string{`{"id":"a","attributes":{}}`, `{"id":"b","attributes":{}}`}},
		{"a large element", record.Entity, record.JSON, Description{}, `[{"id":"` + strings.Repeat("x", recordfile.MaxRecordBytes) + `"},{"id":"b"}]`, []string{"!longer than", `{"id":"b","attributes":{}}`}},
		{"times in a zone", record.Event, record.CSV, german, "name;occurred_at\nn;1.3.2026 9:05\nn;25.10.2026 02:30\nn;25.10.2026 03:30\nn;29.03.2026 02:30\nn;31.02.2026 00:00\nn;2026-01-01\nn;\n", []string{
			`{"id":"line:2","name":"n","occurred_at":"2026-03-01T08:05:00.000Z","attributes":{}}`,
			`{"id":"line:3","name":"n","occurred_at":"2026-10-25T00:30:00.000Z","attributes":{}}`, // 02:30 occurs twice on this day; this is the first occurrence
			`{"id":"line:4","name":"n","occurred_at":"2026-10-25T02:30:00.000Z","attributes":{}}`,
			`!occurred_at "29.03.2026 02:30" does not exist in Europe/Berlin`, `!occurred_at "31.02.2026 00:00" does not fit the time format`, "!does not fit", "!occurred_at is empty",
		}},
		{"times west of Greenwich", record.Event, record.NDJSON, Description{TimeFormats: []string{"%m/%d/%y %I:%M %p"}, TimeZone: "America/New_York"}, `{"name":"n","occurred_at":"11/01/26 1:30 AM"}` + "\n" + `{"name":"n","occurred_at":5}`, []string{
			`{"id":"line:1","name":"n","occurred_at":"2026-11-01T05:30:00.000Z","attributes":{}}`, "!occurred_at must be",
		}},
		{"times with an offset", record.Event, record.NDJSON, Description{TimeFormats: []string{"%Y-%m-%d %H:%M:%S %z"}}, `{"name":"n","occurred_at":"2026-01-02 03:04:05.678 +0100"}`, []string{
			`{"id":"line:1","name":"n","occurred_at":"2026-01-02T02:04:05.678Z","attributes":{}}`,
		}},
		{"UTF-16", record.Event, record.CSV, Description{Encoding: "utf-16", Delimiter: "\t"}, utf16, []string{`{"id":"line:2","name":"n","attributes":{"city":"Köln"}}`}},
		{"Windows", record.Event, record.CSV, Description{Encoding: "windows-1252"}, windows, []string{`{"id":"line:2","name":"n","attributes":{"a":"Köln – 5 €"}}`}},
		{"Windows without its encoding", record.Event, record.CSV, Description{}, windows, []string{"!UTF-8; for text that is not UTF-8, say which encoding"}},
		{"the wrong encoding", record.Event, record.CSV, Description{Encoding: "shift_jis"}, "name\n\xff\n\x83\x4a\n", []string{"!not text in shift_jis", `{"id":"line:3","name":"カ","attributes":{}}`}},
		{"a record without a name", record.Event, record.CSV, Description{Name: "n"}, "id,name\na,\nb,m\n", []string{`{"id":"a","name":"n","attributes":{}}`, `{"id":"b","name":"m","attributes":{}}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shape.Resource, tt.shape.Format = tt.resource, tt.format
			records, err := readAll(t, tt.text, tt.shape)
			if err != nil || len(records) != len(tt.want) {
				t.Fatalf("%d records, want %d, %v: %+v", len(records), len(tt.want), err, records)
			}
			for i, rec := range records {
				reason, rejected := strings.CutPrefix(tt.want[i], "!")
				got := string(rec.JSON())
				if rejected != (rec.Err != nil) || !strings.Contains(fmt.Sprint(rec.Err, got), reason) {
					t.Errorf("record %d: %s %v, want %s", i, got, rec.Err, tt.want[i])
				}
			}
		})
	}
}

// columnsOf returns columns that become fields; "" leaves one out.
func columnsOf(fields map[string]string) (list []Column) {
	for source, field := range fields {
		list = append(list, Column{Source: source, Field: field, Out: field == ""})
	}
	return list
}

func TestFilesOfAnotherShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		format     record.Format
		shape      Description
		text, want string
	}{
		{"semicolons", record.CSV, Description{}, "id;name\n", `the delimiter is ';'`},
		{"tabs", record.CSV, Description{}, "id\tname\n", `the delimiter is tab`},
		{"commas", record.CSV, Description{Delimiter: ";"}, "id,name\n", `the delimiter is ','`},
		{"an unknown column", record.CSV, Description{}, "id,amount\n", `attributes.amount`},
		{"a column that is not there", record.CSV, Description{Columns: columnsOf(map[string]string{"order": "id"})}, "name\n", `the header lacks the column "order"`},
		{"a column and what is mapped to it", record.CSV, Description{Columns: columnsOf(map[string]string{"no": "id"})}, "no,id\n", `the column "id" occurs twice`},
		{"UTF-16", record.CSV, Description{}, "\xff\xfei\x00", "encoding is utf-16"},
		{"Windows-1252 in the header", record.CSV, Description{}, "id,attributes.\xe4\n", "say which encoding"},
		{"an archive without a name", record.CSV, Description{}, "PK\x03\x04", "zip archive"},
		{"an array in an object", record.JSON, Description{}, `{"data":[` + strings.Repeat("{},", recordfile.MaxRecordBytes) + `{}]}`, "not an object with an array in it"},
		{"an array that ends early", record.JSON, Description{}, `[{"name":"n"},`, "after element 1"},
		{"an array with an error", record.JSON, Description{}, `[{"name":"n"} {}]`, "after element 1, byte 14"},
		{"more than an array", record.JSON, Description{}, `[{"name":"n"}] x`, "after element 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.shape.Resource, tt.shape.Format = record.Event, tt.format
			_, err := readAll(t, tt.text, tt.shape)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
