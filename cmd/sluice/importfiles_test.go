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
)

// The built command sends and rejects what pkg/importfile/testdata/cases.json says. The server
// only records what it is sent.
func TestTheCommandReadsWhatPeopleImport(t *testing.T) {
	t.Parallel()
	for _, c := range importcases.Load(t, "../..") {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var records []importcases.Record
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Sluice-Source", "service/default")
				var body struct{ Entities, Events []jsontext.Value }
				if r.Method == http.MethodGet {
					fmt.Fprint(w, `{"data":[],"next_cursor":null}`)
					return
				}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				var results []string
				for i, sent := range append(body.Entities, body.Events...) {
					records = append(records, importcases.Record{Record: sent})
					results = append(results, fmt.Sprintf(`{"index":%d,"status":201,%q:%s}`, i, c.Description.Resource, sent))
				}
				fmt.Fprintf(w, `{"results":[%s]}`, strings.Join(results, ","))
			}))
			defer server.Close()
			dir := t.TempDir()
			description, err := json.Marshal(c.Description)
			if err != nil {
				t.Fatal(err)
			}
			file, as := filepath.Join(dir, "file"), filepath.Join(dir, "description.json")
			overwrite(t, file, string(c.Content()))
			overwrite(t, as, string(description))
			cmd := sluiceCommand(t, server.URL, "import", c.Description.Resource.Plural(), file, "--as", as, "--workers", "1", "--share", "1")
			_, stderr, code := run(t, cmd)
			var failure error
			if code != 0 && code != exitRejected {
				failure = errors.New(stderr)
			}
			c.Check(t, records, rejectsOf(t, file+".rejects.ndjson"), failure)
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
