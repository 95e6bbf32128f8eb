// Package connectors_test runs the connectors against the server of `sluice serve`.
package connectors_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"sluice/internal/test/child"
)

// connector uses a tool to keep a copy of the records.
type connector struct {
	name string

	// sync runs the tool once and applies the result to copied. dir holds the tool's state.
	sync func(t *testing.T, s *service, dir string, copied tables)

	dir    string
	copied tables
}

// TestConnectors runs each connector twice. The first run copies all records, and the second run
// copies the changes. After each run, the copy must equal the records in export files. The test
// also queries the export files with DuckDB, and writes dlt's copy to another workspace.
func TestConnectors(t *testing.T) {
	t.Parallel()
	_, err := os.Stat(tool(t, "python"))
	child.Require(t, err, "run: make connector-tools")
	entities, events := count(t, "CONNECTORS_ENTITIES", 500), count(t, "CONNECTORS_EVENTS", 2000)
	s := startService(t, entities, events)
	connectors := []*connector{
		{name: "airbyte", sync: syncAirbyte},
		{name: "dlt", sync: syncDLT},
		{name: "singer", sync: syncSinger},
	}
	for _, c := range connectors {
		c.dir, c.copied = t.TempDir(), tables{"entity": {}, "event": {}}
	}

	files := t.TempDir()
	exported := make(chan tables)
	go func() { exported <- s.exportAll(t, s.key, files) }()
	syncAll(t, s, connectors)
	full := <-exported
	for _, c := range connectors {
		compare(t, c.name, c.copied, full)
	}
	if t.Failed() {
		return
	}
	if err := os.Rename(filepath.Join(files, "event.ndjson.gz"), filepath.Join(files, "earlier.ndjson.gz")); err != nil {
		t.Fatal(err)
	}
	s.change(t)
	changed := s.exportAll(t, s.key, files)
	kept := 0
	for id := range full["event"] {
		if _, ok := changed["event"][id]; ok {
			kept++
		}
	}
	if erased := len(full["event"]) - kept; erased == 0 {
		t.Error("no event was erased")
	}
	writeWithDLT(t, s, connectors[1].dir, full)
	s.exportChanges(t, filepath.Join(files, "change.ndjson"))
	queryExports(t, files, len(changed["entity"]), len(changed["event"]), lateEvents, len(full["event"]), kept, greatest(events))
	compareImport(t, filepath.Join(files, "imported.ndjson"), changed["event"])
	syncAll(t, s, connectors)
	for _, c := range connectors {
		compare(t, c.name, c.copied, changed)
	}
}

// count returns the number in an environment variable, or a default if the variable is not set.
func count(t *testing.T, variable string, standard int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// incrementalPages is the maximum number of pages of an incremental sync: two or three of entities
// and two of events.
const incrementalPages = 5

// syncAll runs all connectors concurrently, each from its own address.
func syncAll(t *testing.T, s *service, connectors []*connector) {
	t.Helper()
	var wg sync.WaitGroup
	for i, c := range connectors {
		wg.Go(func() {
			from := s.callerAt(t, fmt.Sprintf("127.23.0.%d", i+1))
			first := len(c.copied["event"]) == 0
			c.sync(t, from.service, c.dir, c.copied)
			if first {
				checkThroughput(t, c.name, from, len(c.copied["entity"])+len(c.copied["event"]))
			} else if pages := from.statuses[http.StatusOK]; pages > incrementalPages {
				t.Errorf("%s: the incremental sync read %d pages, want at most %d", c.name, pages, incrementalPages)
			}
		})
	}
	wg.Wait()
}

// fullThroughput is the minimum number of records for which the test checks the throughput. With
// fewer records, starting and ending a run takes too much of the time.
const fullThroughput = 10_000

func checkThroughput(t *testing.T, name string, from *caller, records int) {
	t.Helper()
	took := from.last.Sub(from.first)
	perSecond := float64(records) / took.Seconds()
	t.Logf("%s: %d records in %v, %.0f a second; responses by status: %v", name, records, took.Round(time.Millisecond), perSecond, from.statuses)
	if records >= fullThroughput && perSecond < 0.9*200 {
		t.Errorf("%s: %.0f records a second, want at least 0.9 of the limit", name, perSecond)
	}
}
