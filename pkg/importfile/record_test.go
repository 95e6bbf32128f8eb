package importfile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// readAll reads records as an import does. A record without an id gets an id such as "line:3".
func readAll(t *testing.T, text string, d Description) (records []Row, err error) {
	t.Helper()
	r, err := Open(strings.NewReader(text), d, Options{ID: func(line int64) string { return fmt.Sprintf("line:%d", line) }, Decode: decode})
	if err != nil {
		return nil, err
	}
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, rec)
	}
}

func decode(label string, r io.Reader) (io.Reader, error) {
	found, err := htmlindex.Get(label)
	if err != nil {
		return nil, err
	}
	return transform.NewReader(r, unicode.BOMOverride(found.NewDecoder())), nil
}

func TestReadRecords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		format   record.Format
		entities bool
		text     string
		want     []string // for each record: its line, then the JSON that is sent, or "!" and part of the error
	}{
		{"no records", record.NDJSON, false, "\n \n\r\n", nil},
		{"nothing", record.NDJSON, false, "", nil},
		{"events", record.NDJSON, false, "{\"id\":\"a\",\"name\":\"n\"}\n\n{\"name\":\"m\",\"entity_id\":\"e\",\"occurred_at\":\"2026-01-02T15:04:05+01:00\",\"attributes\":{ \"n\":1.50, \"s\":\"<\\u00e9>\"}}", []string{
			`1 {"id":"a","name":"n","attributes":{}}`,
			`3 {"id":"line:3","name":"m","entity_id":"e","occurred_at":"2026-01-02T14:04:05.000Z","attributes":{"n":1.50,"s":"<\u00e9>"}}`,
		}},
		{"Windows and Excel", record.NDJSON, false, "\xef\xbb\xbf{\"id\":\"a\",\"name\":\"n\"}\r\n", []string{`1 {"id":"a","name":"n","attributes":{}}`}},
		{"null means that a field is missing", record.NDJSON, false, `{"id":null,"name":"n","entity_id":null,"occurred_at":null,"attributes":null}`, []string{`1 {"id":"line:1","name":"n","attributes":{}}`}},
		{"exported", record.NDJSON, false, `{"id":"a","name":"n","entity_id":null,"occurred_at":"2026-01-02T15:04:05.000Z","attributes":{},"created_at":"2026-01-02T15:04:05.000Z"}`,
			[]string{`1 {"id":"a","name":"n","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{}}`}},
		{"exported entities", record.NDJSON, true, `{"id":"a","type":"t","attributes":{"a":null},"revision":7,"created_at":"2026-01-02T15:04:05.000Z","updated_at":"2026-01-02T15:04:05.000Z"}`,
			[]string{`1 {"id":"a","type":"t","attributes":{"a":null}}`}},
		{"entities", record.NDJSON, true, `{}`, []string{`1 {"id":"line:1","attributes":{}}`}},
		{"bad lines", record.NDJSON, false, "{\"name\"\n{\"name\":\"ok\"}\n[{}]\n5\n{\"name\":5}\n{\"nmae\":\"\"}\n{\"name\":\"a\",\"name\":\"b\"}\n{\"name\":\"\xff\"}\n{\"name\":\"\\ud800\"}\n{} {}\n{\"name\":\"n\",\"attributes\":[]}\n{\"name\":\"n\",\"id\":\"\"}\n{\"type\":\"t\",\"name\":\"n\"}\n{\"name\":\"n\",\"entity_id\":\"\"}\n{\"name\":\"n\",\"occurred_at\":\"now\"}", []string{
			"1 !not one well-formed JSON object", `2 {"id":"line:2","name":"ok","attributes":{}}`, "3 !not an object", "4 !not an object", "5 !name must be a string", "6 !nmae is not a field",
			"7 !duplicate", "8 !UTF-8", "9 !surrogate", "10 !not one well-formed JSON object", "11 !attributes must be a JSON object", "12 !id must be", "13 !type is not a field here",
			"14 !entity_id must be", "15 !RFC 3339",
		}},
		{"an event among entities", record.NDJSON, true, `{"name":"n"}`, []string{"1 !name is not a field here"}},
		{"a long line", record.NDJSON, false, `{"name":"` + strings.Repeat("x", recordfile.MaxRecordBytes) + "\"}\n{\"name\":\"n\"}", []string{"1 !longer than", `2 {"id":"line:2","name":"n","attributes":{}}`}},

		{"CSV", record.CSV, false, "id,name,entity_id\na,n,e\n,m,\n\n\"b\",\"two\nlines\",\nc,d,\n", []string{
			`2 {"id":"a","name":"n","entity_id":"e","attributes":{}}`,
			`3 {"id":"line:3","name":"m","attributes":{}}`,
			`5 {"id":"b","name":"two\nlines","attributes":{}}`,
			`7 {"id":"c","name":"d","attributes":{}}`,
		}},
		{"CSV with times", record.CSV, false, "name,occurred_at\nn,2026-01-02T15:04:05Z\nn,\nn,\"\"\nn\n", []string{
			`2 {"id":"line:2","name":"n","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{}}`, "3 !occurred_at is empty", "4 !occurred_at is empty", "5 !1 cells",
		}},
		{"CSV of exports", record.CSV, true, "\xef\xbb\xbfid,type,revision,created_at,updated_at,attributes.a,attributes.b c,attributes.\r\na,t,7,2026-01-02T15:04:05.000Z,2026-01-02T15:04:05.000Z,1.50,\"{\"\"x\"\": [true]}\",\r\nb,t,,,,,,'=1+1\r\n", []string{
			`2 {"id":"a","type":"t","attributes":{"a":1.50,"b c":{"x":[true]}}}`,
			`3 {"id":"b","type":"t","attributes":{"":"=1+1"}}`,
		}},
		{"CSV with attributes as JSON", record.CSV, false, "name,attributes\nn,\"{\"\"a\"\":1}\"\nn,\nn,x\nn,5\n", []string{
			`2 {"id":"line:2","name":"n","attributes":{"a":1}}`, `3 {"id":"line:3","name":"n","attributes":{}}`, "4 !attributes must be", "5 !attributes must be",
		}},
		{"bad CSV", record.CSV, false, "id,name\na\na,b,c\n\"x\"y,n\nb,n\nc,\xff\n", []string{"2 !1 cells", "3 !3 cells", "4 !\"", `5 {"id":"b","name":"n","attributes":{}}`, "6 !name must be"}},
		{"bad text in CSV", record.CSV, true, "attributes.a\n\xff\n", []string{"2 !UTF-8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resource := record.Event
			if tt.entities {
				resource = record.Entity
			}
			records, err := readAll(t, tt.text, Description{Resource: resource, Format: tt.format})
			if err != nil {
				t.Fatal(err)
			}
			if len(records) != len(tt.want) {
				t.Fatalf("%d records, want %d: %+v", len(records), len(tt.want), records)
			}
			var end int64
			for i, rec := range records {
				got := fmt.Sprint(rec.Line, " ", string(rec.JSON()))
				line, reason, rejected := strings.Cut(tt.want[i], "!")
				if rejected {
					if line != fmt.Sprint(rec.Line, " ") || rec.Err == nil || !strings.Contains(rec.Err.Error(), reason) {
						t.Errorf("record %d, line %d: %v, want %s", i, rec.Line, rec.Err, tt.want[i])
					}
				} else if rec.Err != nil || got != tt.want[i] {
					t.Errorf("record %d: %s %v, want %s", i, got, rec.Err, tt.want[i])
				}
				if rec.Offset <= end || rec.Offset > int64(len(tt.text)) {
					t.Errorf("record %d ends at %d after %d of %d", i, rec.Offset, end, len(tt.text))
				}
				end = rec.Offset
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		format     record.Format
		text, want string
	}{
		{"no header", record.CSV, "", "there is no header"},
		{"an unknown column", record.CSV, "id,nmae\n", `the column "nmae" is unknown`},
		{"a column twice", record.CSV, "id,id\n", "twice"},
		{"both forms of attributes", record.CSV, "attributes,attributes.a\n", "must not have both"},
		{"an open quote", record.CSV, "name\n\"" + strings.Repeat("x\n", 2<<20), "is a quote left open?"},
		{"invalid gzip", record.NDJSON, "\x1f\x8b????????????", "unpack"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := readAll(t, tt.text, Description{Resource: record.Event, Format: tt.format}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestGzipIsDetectedByItsFirstBytes(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	for _, text := range []string{"{\"id\":\"a\",\"name\":\"n\"}\n", "{\"id\":\"b\",\"name\":\"n\"}\n"} { // each line becomes a separate gzip member
		w := gzip.NewWriter(&packed)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	records, err := readAll(t, packed.String(), Description{Resource: record.Event, Format: record.NDJSON})
	if err != nil || len(records) != 2 || records[1].ID != "b" {
		t.Errorf("%+v, %v", records, err)
	}
	if _, err := readAll(t, packed.String()[:packed.Len()-3], Description{Resource: record.Event, Format: record.NDJSON}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("truncated: %v", err)
	}
}
