package importfile

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/internal/test/child"
	"sluice/pkg/record"
)

//go:embed testdata/differential.py
var differentialPy string

// What Python's csv and json read, this package reads in the same way, or rejects for a reason in
// the log. The variable DIFFERENTIAL sets how long texts are compared, such as 20m.
func TestPythonReadsTheSame(t *testing.T) {
	t.Parallel()
	long := time.Second
	if text := os.Getenv("DIFFERENTIAL"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	python, err := exec.LookPath("python3")
	child.Require(t, err, "install Python 3.9 or later")
	cmd := exec.CommandContext(t.Context(), python, "-c", differentialPy)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	differs := make(map[string]int)
	examples := make(map[string]string)
	n := 0
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); n++ {
		text := randomCSV(random)
		if n%2 == 1 {
			text = randomJSON(random)
		}
		var python struct {
			Rows  [][]string
			Error string
			Value any
		}
		line, err := json.Marshal(text)
		if err == nil {
			_, err = in.Write(append(line, '\n'))
		}
		var answer []byte
		if err == nil {
			answer, err = answers.ReadBytes('\n')
		}
		if err == nil {
			err = json.Unmarshal(answer, &python)
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var why string
		if n%2 == 1 {
			why = compareJSON(t, text, python.Value)
		} else {
			why = compareCSV(t, text, python.Rows, python.Error)
		}
		differs[why]++
		examples[why] = text
	}
	t.Logf("%d texts, seed %d", n, seed)
	for _, why := range slices.Sorted(maps.Keys(differs)) {
		t.Logf("%d: %s: %q", differs[why], why, examples[why])
	}
	in.Close() //nolint:errcheck // ends Python
	cmd.Wait() //nolint:errcheck // it has answered everything
}

func randomCSV(random *rand.Rand) string {
	parts := []string{"a", "5", ",", ",", `"`, `"`, `""`, "\n", "\r\n", "\r", " ", "'", "é", ";", `"x"`, `"y,z"`, "\"l\nm\"", "\t"}
	if random.IntN(3) > 0 { // mostly well-formed
		parts = []string{"a", "5", ",", ",", "\n", "\r\n", " ", `,"x"`, `,"y,z",`, ",\"l\nm\"\n", `,"q""r",`, ",\"\r\n\","}
	}
	var b strings.Builder
	for range 1 + random.IntN(14) {
		b.WriteString(parts[random.IntN(len(parts))])
	}
	return b.String()
}

// compareCSV returns why Python reads something else, or "the same".
func compareCSV(t *testing.T, text string, python [][]string, failed string) string {
	why, wrong := compareRows(text, python, failed)
	if wrong == "" {
		return why
	}
	if strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") && strings.Contains(text, "\n") {
		return "CSV, a CR that is not before LF ends a row in Python, but not here"
	}
	t.Errorf("%q: %s; Python reads %q, %s", text, wrong, python, failed)
	return ""
}

func compareRows(text string, python [][]string, failed string) (why, wrong string) {
	var lines lineReader
	if err := lines.open(strings.NewReader(text), nil); err != nil {
		return "", err.Error()
	}
	r := &csvReader{lines: &lines, delimiter: ",", quote: `"`}
	python = slices.DeleteFunc(python, func(cells []string) bool { return strings.Join(cells, "") == "" }) // this package skips them
	for i := 0; ; {
		row, err := r.next()
		switch {
		case err == nil && row.err == nil && row.empty():
			continue
		case err == io.EOF && i == len(python) && failed == "":
			return "CSV, the same", ""
		case err == io.EOF:
			return "", fmt.Sprintf("%d rows", i)
		case err != nil:
			return "", err.Error()
		case row.err != nil && (failed != "" || errors.Is(row.err, errStrayQuote)):
			return fmt.Sprintf("CSV, rejected here: %v; Python: %s", row.err, failed), ""
		case row.err != nil:
			return "", row.err.Error()
		}
		var cells []string
		for _, c := range row.cells {
			cells = append(cells, c.text)
		}
		if i >= len(python) || !slices.Equal(cells, python[i]) {
			return "", fmt.Sprintf("row %d is %q", i, cells)
		}
		i++
	}
}

func (r *csvRow) empty() bool {
	return !slices.ContainsFunc(r.cells, func(c cell) bool { return c.text != "" })
}

func randomJSON(random *rand.Rand) string {
	var value func(deep int) string
	value = func(deep int) string {
		atoms := []string{"1", "-0", "1.50", "1e5", "1E400", "12345678901234567890", "null", "true", `"a"`, `"\u00e9"`, `"\ud83d\ude00"`, `"é"`, `""`, `"\n"`, `"\/"`, "[]", "{}"}
		rare := []string{"01", "+1", ".5", "1.", "NaN", "-Infinity", `"\ud800"`, "'a'", `"\x"`, "tru", "\"\t\"", `"`, "", "//"}
		switch k := random.IntN(12); {
		case k == 0:
			return rare[random.IntN(len(rare))]
		case k < 8 || deep > 3:
			return atoms[random.IntN(len(atoms))]
		case k < 10:
			return "[" + value(deep+1) + "," + value(deep+1) + "]"
		}
		names := []string{`"a"`, `"b"`, `"\u0061"`, `""`, `"c"`}
		return "{" + names[random.IntN(5)] + ":" + value(deep+1) + " ,\t" + names[random.IntN(5)] + ": " + value(deep+1) + "}"
	}
	text := `{"x":` + value(0) + `,"y":` + value(0) + "}"
	if random.IntN(10) == 0 {
		at := random.IntN(len(text))
		text = text[:at] + string(`{}[],:" 0`[random.IntN(9)]) + text[at:]
	}
	return strings.ToValidUTF8(text, "")
}

func compareJSON(t *testing.T, text string, python any) string {
	_, err := record.Pairs([]byte(text))
	switch {
	case (err == nil) != (python != nil):
		if err == nil || jsontext.Value(strings.TrimSpace(text)).Kind() == '{' {
			t.Errorf("%q: %v, but Python reads %v", text, err, python)
		}
		return "JSON, Python reads what is no object"
	case err != nil:
		return "JSON, rejected by both"
	}
	if got := shown(t, jsontext.Value(text)); !reflect.DeepEqual(got, python) {
		t.Errorf("%q is %v, in Python %v", text, got, python)
	}
	return "JSON, the same"
}

// shown returns a value in the form of testdata/differential.py.
func shown(t *testing.T, v jsontext.Value) any {
	v = jsontext.Value(strings.TrimSpace(string(v)))
	switch v.Kind() {
	case '{':
		members, err := record.Pairs(v)
		if err != nil {
			t.Fatal(err)
		}
		list := []any{}
		for _, m := range members {
			list = append(list, []any{m.Name, shown(t, m.Value)})
		}
		return map[string]any{"object": list}
	case '0':
		return map[string]any{"number": string(v)}
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			t.Fatal(err)
		}
		all := []any{}
		for _, item := range list {
			all = append(all, shown(t, jsontext.Value(item)))
		}
		return all
	}
	var plain any
	if err := json.Unmarshal(v, &plain); err != nil {
		t.Fatal(err)
	}
	return plain
}
