package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/internal/test/importcases"
	"sluice/pkg/record"
)

// recordingServer only notes what it is sent, and returns indexes as those of the workspace.
func recordingServer(t *testing.T, resource record.Resource, indexes string) (url string, sent *[]importcases.Record) {
	t.Helper()
	sent = new([]importcases.Record)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sluice-Source", "service/default")
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"data":[%s],"next_cursor":null}`, indexes)
			return
		}
		var body struct{ Entities, Events []jsontext.Value }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		var results []string
		for i, text := range append(body.Entities, body.Events...) {
			*sent = append(*sent, importcases.Record{Record: text})
			results = append(results, fmt.Sprintf(`{"index":%d,"status":201,%q:%s}`, i, resource, text))
		}
		fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(results, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// The built command sends and rejects what pkg/importfile/testdata/cases.json says.
func TestTheCommandReadsWhatPeopleImport(t *testing.T) {
	t.Parallel()
	for _, c := range importcases.Load(t, "../..") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			url, records := recordingServer(t, c.Description.Resource, "")
			dir := t.TempDir()
			description, err := json.Marshal(c.Description)
			if err != nil {
				t.Fatal(err)
			}
			file, as := filepath.Join(dir, "file"), filepath.Join(dir, "description.json")
			overwrite(t, file, string(c.Content()))
			overwrite(t, as, string(description))
			cmd := sluiceCommand(t, url, "import", c.Description.Resource.Plural(), file, "--as", as, "--workers", "1", "--share", "1")
			_, stderr, code := run(t, cmd)
			var failure error
			if code != 0 && code != exitRejected {
				failure = errors.New(stderr)
			}
			c.Check(t, *records, rejectsOf(t, file+".rejects.ndjson"), failure)
		})
	}
}

func rejectsOf(t *testing.T, path string) (rejects []importcases.Reject) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r struct {
			Line, Element int64
			LastLine      int64 `json:"last_line"`
			Reason        string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		r.Line = max(r.Line, r.Element)
		rejects = append(rejects, importcases.Reject{Line: r.Line, LastLine: max(r.LastLine, r.Line), Reason: r.Reason})
	}
	return rejects
}

// A description that was saved says what the next file of its kind is. The type of a column is that
// of an index.
func TestADescriptionIsSavedAndUsed(t *testing.T) {
	t.Parallel()
	url, records := recordingServer(t, record.Entity, `{"resource":"entity","type":"customer","attributes":[{"name":"zip","value_type":"text"}],"state":"ready","done":1}`)
	dir := t.TempDir()
	first, second, as := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv"), filepath.Join(dir, "customers.json")
	overwrite(t, first, "no;zip;n\n1;90210;1\n2;10115;2\n")
	overwrite(t, second, "no;zip;n\n3;02134;3\n4;5;x\n")
	run := func(code int, stdout, stderr string, args ...string) {
		t.Helper()
		wantRun(t, sluiceCommand(t, url, append([]string{"import", "entities"}, args...)...), code, stdout, stderr)
	}
	describe := []string{first, "--map", "no=id", "--type", "customer", "--save-as", as}
	run(0, "2 entities: 2 would be sent", "", append(describe, "--dry-run")...)
	run(0, "2 entities: 2 new", "Types: zip text, n number.", describe...)
	run(exitRejected, "2 entities: 1 new", "1 record was rejected", second, "--as", as)
	run(exitUsage, "", "--as and --type cannot be used together", second, "--as", as, "--type", "x")
	run(exitFailure, "", "is no description of a file", first, "--map", "no=id", "--save-as", second, "--again")
	if text := read(t, second); !strings.HasPrefix(text, "no;zip") {
		t.Errorf("--save-as has replaced a file: %s", text)
	}
	if rejects := rejectsOf(t, second+".rejects.ndjson"); len(rejects) != 1 || rejects[0].Line != 3 || rejects[0].Reason != `n "x" is not a number as in JSON, such as 6718 or -0.5` {
		t.Errorf("rejects %+v", rejects)
	}
	want := `[{"id":"1","type":"customer","attributes":{"zip":"90210","n":1}} {"id":"2","type":"customer","attributes":{"zip":"10115","n":2}} {"id":"3","type":"customer","attributes":{"zip":"02134","n":3}}]`
	var got []string
	for _, r := range *records {
		got = append(got, string(r.Record))
	}
	if text := fmt.Sprint(got); text != want {
		t.Errorf("sent %s, want %s", text, want)
	}
}
