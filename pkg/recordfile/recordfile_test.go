package recordfile_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"sluice/pkg/importfile"
	"sluice/pkg/record"
	"sluice/pkg/recordfile"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var columns = []string{"id", "name", "entity_id"}

func writeCSV(t tester, keepFormulas bool, attributes []string, records ...string) string {
	t.Helper()
	var file bytes.Buffer
	w := recordfile.NewCSVWriter(&file, columns, attributes, keepFormulas)
	if err := w.WriteHeader(); err != nil {
		t.Fatalf("%v", err)
	}
	for _, r := range records {
		if err := w.Write([]byte(r)); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
	}
	return file.String()
}

// readJSON fails the test if a record is invalid.
func readJSON(t tester, file string, format record.Format) (records []string) {
	t.Helper()
	d := importfile.Description{Resource: record.Event, Format: format, Time: importfile.TimeNow}
	r, err := importfile.Open(strings.NewReader(file), d, importfile.Options{ID: func(int64) string { return "" }})
	if err != nil {
		t.Fatalf("%q: %v", file, err)
	}
	for {
		switch rec, err := r.Read(); {
		case err == io.EOF:
			return records
		case err != nil || rec.Err != nil:
			t.Fatalf("%q: %v, %v", file, err, rec.Err)
		default:
			records = append(records, string(rec.JSON()))
		}
	}
}

// roundTrip writes an event to a CSV file. It returns the cell of attribute "a" as it is in
// the file, and the event as a Reader returns it.
func roundTrip(t tester, keepFormulas bool, attributes string) (cell, back string) {
	t.Helper()
	file := writeCSV(t, keepFormulas, []string{"a"}, `{"id":"x","name":"n","entity_id":null,"attributes":`+attributes+`}`)
	_, line, _ := strings.Cut(file, "\r\n")
	cell, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r\n"), "x,n,,")
	if !ok {
		t.Fatalf("the file is %q", file)
	}
	return cell, readJSON(t, file, record.CSV)[0]
}

func TestCells(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ value, cell string }{ // value is attribute "a" as JSON, or "" if it is missing
		{``, ``}, {`""`, `""`}, {`null`, `null`}, {`"null"`, `"null"`}, {`true`, `true`}, {`"true"`, `"true"`}, {`false`, `false`}, {`"TRUE"`, `TRUE`},
		{`5`, `5`}, {`"5"`, `"5"`}, {`-1.50e+3`, `-1.50e+3`}, {`"-1.50e+3"`, `"-1.50e+3"`}, {`1E400`, `1E400`}, {`"1e400"`, `"1e400"`}, {`-0`, `-0`},
		{`"007"`, `007`}, {`"+5"`, `+5`}, {`" 5"`, ` 5`}, {`"5 "`, `5 `}, {`"0x5"`, `0x5`}, {`".5"`, `.5`}, {`"5\n"`, "\"5\n\""}, {`"5;5"`, `"5;5"`},
		{`{}`, `{}`}, {`"{}"`, `'{}`}, {`"'{}"`, `''{}`}, {`[1,"b"]`, `"[1,""b""]"`}, {`"[1,\"b\"]"`, `"'[1,""b""]"`}, {`"{bad"`, `{bad`}, {`{"\u0041":[1.50]}`, `"{""\u0041"":[1.50]}"`},
		{`"\"x\""`, `"""x"""`}, {`"it's"`, `it's`}, {`"'tis"`, `'tis`}, {`"'"`, `'`}, {`"''"`, `''`}, {`"'5"`, `'5`}, {`"'null"`, `'null`},
		{`"x,y"`, `"x,y"`}, {`"x;y"`, `"x;y"`}, {`"x\ty"`, "\"x\ty\""}, {`"x\ny"`, "\"x\ny\""}, {`"x\r\ny"`, "\"x\r\ny\""}, {`"x\ry"`, "\"x\ry\""}, {`"x\r"`, "\"x\r\""}, {`"x\r\n"`, "\"x\r\n\""},
		{`" x "`, ` x `}, {`"\ufeffx"`, "\ufeffx"}, {`"x\u0000"`, "x\x00"}, {`"é😀"`, `é😀`},
	} {
		for _, keep := range []bool{false, true} {
			attributes := `{"a":` + tt.value + `}`
			if tt.value == "" {
				attributes = `{}`
			}
			cell, back := roundTrip(t, keep, attributes)
			if cell != tt.cell {
				t.Errorf("%s: the cell is %q, want %q", attributes, cell, tt.cell)
			}
			if want := `{"id":"x","name":"n","attributes":` + attributes + `}`; tt.value != "" && !sameRecord(t, back, want) || tt.value == "" && back != `{"id":"x","name":"n","attributes":{}}` {
				t.Errorf("%s is read back as %s", attributes, back)
			}
		}
	}
}

// sameRecord compares records, ignoring how strings are escaped.
func sameRecord(t tester, a, b string) bool {
	t.Helper()
	canonical := func(s string) string {
		v := jsontext.Value(s)
		if err := v.Format(jsontext.PreserveRawStrings(false), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return string(v)
	}
	return canonical(a) == canonical(b)
}

func TestCellsThatASpreadsheetWouldRun(t *testing.T) {
	t.Parallel()
	// text is the attribute as a JSON string, but without quotes. want is the cell. kept is the
	// cell with keepFormulas, or "" if that equals the decoded text.
	for _, tt := range []struct{ text, want, kept string }{
		{`=1+1`, `'=1+1`, ``}, {`+1+1`, `'+1+1`, ``}, {`-1+1`, `'-1+1`, ``}, {`@SUM(A1)`, `'@SUM(A1)`, ``},
		{`＝1`, `'＝1`, ``}, {`＋1`, `'＋1`, ``}, {`－1`, `'－1`, ``}, {`＠1`, `'＠1`, ``},
		{`\t=1`, "'\t'=1", ``}, {`\r=1`, "'\r'=1", ``}, {`\n=1`, "'\n'=1", ``}, {`\u0000=1`, "'\x00=1", ``}, {`\u0000\u0000=1`, "'\x00\x00=1", ``},
		{`\tx`, "'\tx", ``}, {`\rx`, "'\rx", ``}, {`\nx`, "'\nx", ``}, {`\u0000x`, "'\x00x", ``},
		{`=`, `'=`, ``}, {`-`, `'-`, ``}, {`+`, `'+`, ``}, {`--1`, `'--1`, ``}, {`-1 `, `'-1 `, ``}, {`+1e`, `'+1e`, ``}, {`-0x1`, `'-0x1`, ``}, {`-.`, `'-.`, ``},
		{`-1`, `-1`, ``}, {`+1`, `+1`, ``}, {`-1.50`, `-1.50`, ``}, {`-.5`, `-.5`, ``}, {`-1.`, `-1.`, ``}, {`+1E-9`, `+1E-9`, ``},
		{`1+1`, `1+1`, ``}, {`a=1`, `a=1`, ``}, {` =1`, ` =1`, ``}, {`'x`, `'x`, ``},
		{`'=1`, `''=1`, `''=1`}, {`''=1`, `'''=1`, `'''=1`}, {`'\tx`, "''\tx", "''\tx"}, {`'-1`, `'-1`, ``},
		{`a;=1+1`, `a;'=1+1`, ``}, {`a\t@x`, "a\t'@x", ``}, {`a\n-b\n-c`, "a\n'-b\n'-c", ``}, {`a\r\n+b`, "a\r\n'+b", ``}, {`;;=1;`, `;;'=1;`, ``}, {`a;-1`, `a;'-1`, ``},
		{`a;\"=1`, `a;'"=1`, ``}, {`a;\u0000=1`, "a;'\x00=1", ``}, {`a;'=1;=2`, `a;''=1;'=2`, `a;''=1;=2`}, {`a;b=1`, `a;b=1`, ``}, {`=1;=2`, `'=1;'=2`, ``},
	} {
		for _, keep := range []bool{false, true} {
			attributes := `{"a":"` + tt.text + `"}`
			var text struct{ A string }
			if err := json.Unmarshal([]byte(attributes), &text, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if keep {
				want = text.A
				if tt.kept != "" {
					want = tt.kept
				}
			}
			quoted, back := roundTrip(t, keep, attributes)
			row, err := csv.NewReader(strings.NewReader(quoted)).Read()
			if err != nil {
				t.Fatal(err)
			}
			// encoding/csv changes CR LF to LF.
			if got := row[0]; got != strings.ReplaceAll(want, "\r\n", "\n") {
				t.Errorf("%q, keep %v: the cell is %q, want %q", text.A, keep, got, want)
			}
			if want := `{"id":"x","name":"n","attributes":` + attributes + `}`; !sameRecord(t, back, want) {
				t.Errorf("%s is read back as %s", attributes, back)
			}
		}
	}
}

// Members, attribute names and attribute values can contain any text.
func TestReaderReturnsTheRecordsOfCSVWriter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringOf(rapid.RuneFrom([]rune("ab,\";\n\r\t =-+@'＝\x00é😀\ufeff15.{}[]"))),
			rapid.SampledFrom([]string{"null", "true", "false", "5", "-1", "1e5", "007", "{}", "[1]", "'{}", "''[]", "", "'", "one\r\ntwo", "\r", "\n", "\r\n", "'=1", "''=1", "a;=1+1"}),
		)
		quote := func(s string) string {
			b, err := jsontext.AppendQuote(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		names := slices.Sorted(slices.Values(rapid.SliceOfNDistinct(text, 1, 3, rapid.ID).Draw(t, "names")))
		keep := rapid.Bool().Draw(t, "keep formulas")
		var records []string
		for range rapid.IntRange(1, 3).Draw(t, "records") {
			name := text.Filter(func(s string) bool { return s != "" }).Draw(t, "name")
			var members []string
			for _, attribute := range names {
				a, b := quote(text.Draw(t, "text")), quote(text.Draw(t, "text"))
				switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); kind {
				case 0, 1:
					members = append(members, quote(attribute)+":"+a)
				case 2:
					members = append(members, fmt.Sprintf("%s:[%s,{%s:%s}]", quote(attribute), a, a, b))
				case 3:
					members = append(members, quote(attribute)+":"+rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.50", "1E400", "-1e-400"}).Draw(t, "value"))
				}
			}
			records = append(records, `{"id":"x","name":`+quote(name)+`,"attributes":{`+strings.Join(members, ",")+`}}`)
		}
		file := writeCSV(t, keep, names, records...)
		back := readJSON(t, file, record.CSV)
		if !slices.Equal(back, records) {
			t.Errorf("the file is %q\ngot  %q\nwant %q", file, back, records)
		}
		if again := writeCSV(t, keep, names, back...); again != file {
			t.Errorf("the file is %q, but writing its records again gives %q", file, again)
		}
		if !keep {
			noFormulas(t, file)
		}
	})
}

var number = regexp.MustCompile(`^[+-]?[0-9]*(\.[0-9]*)?([eE][+-]?[0-9]+)?$`)

// noFormulas checks that no spreadsheet evaluates a cell as a formula, whichever separator it uses.
func noFormulas(t tester, file string) {
	t.Helper()
	for _, separator := range []byte{',', ';', '\t'} {
		for _, cell := range spreadsheetCells(file, separator) {
			cell = strings.ReplaceAll(cell, "\x00", "")
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@") && !number.MatchString(cell) {
				t.Errorf("with the separator %q, the file %q has the cell %q", separator, file, cell)
			}
		}
	}
}

// spreadsheetCells splits a file as leniently as spreadsheets do. Quotes count only at the
// beginning of a cell.
func spreadsheetCells(file string, separator byte) (cells []string) {
	var cell []byte
	quoted := false
	for i, begins := 0, true; i < len(file); i++ {
		c := file[i]
		switch {
		case begins && c == '"':
			quoted, begins = true, false
			continue
		case quoted && c == '"' && i+1 < len(file) && file[i+1] == '"':
			i++
		case quoted && c == '"':
			quoted = false
			continue
		case !quoted && (c == separator || c == '\r' || c == '\n'):
			cells, cell, begins = append(cells, string(cell)), nil, true
			continue
		}
		cell, begins = append(cell, c), false
	}
	return append(cells, string(cell))
}

// Clients choose the names of attributes, so a name can be a formula.
func TestAHeaderContainsNoFormula(t *testing.T) {
	t.Parallel()
	file := writeCSV(t, false, []string{"=1", "a;=1"})
	if file != "id,name,entity_id,attributes.=1,\"attributes.a;'=1\"\r\n" {
		t.Errorf("got %q", file)
	}
	noFormulas(t, file)
}

// encoding/csv reads what a CSVWriter wrote, but changes CR LF to LF.
func TestOtherReadersReadTheSameTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("ab,\";\n\r \t=-é😀5"))), 1, 4).Draw(t, "texts")
		var records, want []string
		for _, text := range texts {
			quoted, err := jsontext.AppendQuote(nil, text)
			if err != nil {
				t.Fatal(err)
			}
			records, want = append(records, `{"id":"x","name":"n","attributes":{"a":`+string(quoted)+`}}`), append(want, strings.ReplaceAll(text, "\r\n", "\n"))
		}
		lines, err := csv.NewReader(strings.NewReader(writeCSV(t, true, []string{"a"}, records...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range lines[1:] {
			got = append(got, line[3])
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestNDJSON(t *testing.T) {
	t.Parallel()
	records := []string{`{"id":"a","attributes":{"s":"\u0041\r\n","n":1.50}}`, `{}`}
	var file bytes.Buffer
	w := recordfile.NewNDJSONWriter(&file)
	for _, r := range records {
		if err := w.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	if want := strings.Join(records, "\n") + "\n"; file.String() != want {
		t.Errorf("got %q, want %q", file.String(), want)
	}
}

func TestWritingInvalidJSONIsAnError(t *testing.T) {
	t.Parallel()
	w := recordfile.NewCSVWriter(io.Discard, columns, []string{"a"}, false)
	for _, r := range []string{``, `[]`, `{"id":true}`, `{"id":"x","attributes":[]}`, `{"attributes":{"a":"\ud800"}}`} {
		if err := w.Write([]byte(r)); err == nil {
			t.Errorf("no error for %s", r)
		}
	}
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]record.Format{
		"a.ndjson": record.NDJSON, "a.JSONL": record.NDJSON, "a.b.csv": record.CSV, "a.csv.gz": record.CSV, "A.NDJSON.GZ": record.NDJSON, "a.json": record.JSON,
		"a": "", "a.gz": "", "csv": "", "a.csv.zip": "",
	} {
		if got := recordfile.FormatOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
