package connectors_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/child"
	"sluice/internal/test/secrettest"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// tool returns the path of a program that "make connector-tools" installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	return child.Cached(t, "connectors/bin/"+name)
}

// run executes a program in dir, with env added to the environment, and returns the lines of its
// output. The test fails unless the exit code is 0.
func run(t *testing.T, dir string, env []string, program string, args ...string) [][]byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, program), args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	secrettest.Check(t, program, string(out)+stderr.String())
	if err != nil {
		t.Errorf("%s %v: %v\n%s\n%s", program, args, err, tail(out), tail(stderr.Bytes()))
	}
	return bytes.Split(bytes.TrimSpace(out), []byte("\n"))
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }

func writeJSON(t *testing.T, dir, name string, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Error(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Error(err)
	}
	return path
}

// apply stores a record without its member erased_at, which export files lack. If the member that
// deletedAt names is present and not null, apply deletes the stored record instead.
func (all tables) apply(t *testing.T, stream string, text json.RawMessage, deletedAt string) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Errorf("%v: %s", err, text)
		return
	}
	var id string
	if err := json.Unmarshal(members["id"], &id); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if at := string(members[deletedAt]); at != "" && at != "null" {
		delete(all[stream], id)
		return
	}
	if members["erased_at"] != nil {
		delete(members, "erased_at")
		var err error
		if text, err = json.Marshal(members); err != nil {
			t.Error(err)
		}
	}
	all[stream].put(t, text)
}

// dropErased runs the SQL in a connector's README, and removes from the copy the events that the
// SQL deletes. The SQL reads the entities that the connector has just sent, because the entities
// in the copy have no erased_at.
func (all tables) dropErased(t *testing.T, dir, connector string, entities [][]byte) {
	t.Helper()
	events := make([][]byte, 0, len(all["event"]))
	for _, text := range all["event"] {
		events = append(events, []byte(text))
	}
	for name, lines := range map[string][][]byte{"entity.ndjson": entities, "event.ndjson": events} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Join(lines, []byte("\n")), 0o600); err != nil {
			t.Error(err)
		}
	}
	connectors := filepath.Join(child.ModuleRoot(t), "connectors")
	out := run(t, dir, nil, "python", filepath.Join(connectors, "testdata", "erase.py"), filepath.Join(connectors, connector, "README.md"))
	var left []string
	if err := json.Unmarshal(out[len(out)-1], &left); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	maps.DeleteFunc(all["event"], func(id, _ string) bool { return !slices.Contains(left, id) })
}

// syncAirbyte runs the Airbyte source that the manifest describes, and processes its messages as
// an Airbyte destination does.
func syncAirbyte(t *testing.T, s *service, dir string, copied tables) {
	airbyte := filepath.Join(child.ModuleRoot(t), "connectors", "airbyte")
	args := []string{
		"read", "--manifest-path", filepath.Join(airbyte, "manifest.yaml"), "--catalog", filepath.Join(airbyte, "catalog.json"),
		"--config", writeJSON(t, dir, "config.json", map[string]string{"base_url": s.url, "api_key": s.key}),
	}
	if state := filepath.Join(dir, "state.json"); len(copied["event"]) > 0 {
		args = append(args, "--state", state)
	}
	states := make(map[string]json.RawMessage)
	var entities [][]byte
	for _, line := range run(t, dir, nil, "source-declarative-manifest", args...) {
		var m struct {
			Type   string
			Record struct {
				Stream string
				Data   json.RawMessage
			}
			State json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Errorf("%v: %s", err, line)
			return
		}
		switch m.Type {
		case "RECORD":
			copied.apply(t, m.Record.Stream, m.Record.Data, "_ab_cdc_deleted_at")
			if m.Record.Stream == "entity" {
				entities = append(entities, m.Record.Data)
			}
		case "STATE":
			var of struct {
				Stream struct {
					Descriptor struct{ Name string } `json:"stream_descriptor"`
				}
			}
			if err := json.Unmarshal(m.State, &of); err != nil {
				t.Error(err)
			}
			states[of.Stream.Descriptor.Name] = m.State
		}
	}
	list := make([]json.RawMessage, 0, len(states))
	for state := range maps.Values(states) {
		list = append(list, state)
	}
	writeJSON(t, dir, "state.json", list)
	copied.dropErased(t, dir, "airbyte", entities)
}

// syncSinger runs the tap, and processes its messages as a Singer target does.
func syncSinger(t *testing.T, s *service, dir string, copied tables) {
	args := []string{
		filepath.Join(child.ModuleRoot(t), "connectors", "singer", "tap_sluice.py"),
		"--config", writeJSON(t, dir, "config.json", map[string]string{"base_url": s.url, "api_key": s.key}),
	}
	if len(copied["event"]) > 0 {
		args = append(args, "--state", filepath.Join(dir, "state.json"))
	}
	var state json.RawMessage
	var entities [][]byte
	for _, line := range run(t, dir, nil, "python", args...) {
		var m struct {
			Type   string
			Stream string
			Record json.RawMessage
			Value  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Errorf("%v: %s", err, line)
			return
		}
		switch m.Type {
		case "RECORD":
			copied.apply(t, m.Stream, m.Record, "_sdc_deleted_at")
			if m.Stream == "entity" {
				entities = append(entities, m.Record)
			}
		case "STATE":
			state = m.Value
		}
	}
	writeJSON(t, dir, "state.json", state)
	copied.dropErased(t, dir, "singer", entities)
}

// dltEnv returns environment variables that configure a dlt source or destination. section is
// "SOURCES" or "DESTINATION". dlt keeps its state in dir.
func dltEnv(section, dir, url, key string) []string {
	return []string{
		section + "__SLUICE__BASE_URL=" + url, section + "__SLUICE__API_KEY=" + key,
		"DLT_DATA_DIR=" + dir, "RUNTIME__DLTHUB_TELEMETRY=false",
	}
}

// syncDLT loads the records into DuckDB and reads the tables from there.
func syncDLT(t *testing.T, s *service, dir string, copied tables) {
	connectors := filepath.Join(child.ModuleRoot(t), "connectors")
	run(t, dir, dltEnv("SOURCES", dir, s.url, s.key), "python", filepath.Join(connectors, "dlt", "to_duckdb.py"))
	clear(copied["entity"])
	clear(copied["event"])
	for _, line := range run(t, dir, nil, "python", filepath.Join(connectors, "testdata", "rows.py"), "sluice.duckdb") {
		var row struct {
			Stream string
			Record json.RawMessage
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Errorf("%v: %s", err, line)
			return
		}
		copied.apply(t, row.Stream, row.Record, "")
	}
}

// writeWithDLT writes the records of the DuckDB file in dir to another workspace, and deletes an
// entity there that the file does not have. It checks that the workspace then contains what the file
// does.
func writeWithDLT(t *testing.T, s *service, dir string, want tables) {
	t.Helper()
	c := s.client(t, s.otherKey)
	if _, err := c.UpsertEntities(t.Context(), []entity.Draft{{ID: "gone"}, {ID: "e-1", Attributes: record.Attributes(`{"gone":1}`)}}); err != nil {
		t.Fatal(err)
	}
	connectors, env := filepath.Join(child.ModuleRoot(t), "connectors"), dltEnv("DESTINATION", dir, s.url, s.otherKey)
	run(t, dir, env, "python", filepath.Join(connectors, "dlt", "from_duckdb.py"))
	run(t, dir, append(env, "PYTHONPATH="+filepath.Join(connectors, "dlt")), "python", filepath.Join(connectors, "testdata", "remove.py"), "gone", "never-there")
	if err := c.DeleteEntity(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	compare(t, "dlt", writable(t, s.exportAll(t, s.otherKey, t.TempDir())), writable(t, want))
}

// writable returns the records without the members that the service sets when a record is written.
func writable(t *testing.T, all tables) tables {
	t.Helper()
	stripped := make(tables)
	for name, records := range all {
		stripped[name] = make(table)
		for id, text := range records {
			var members map[string]any
			if err := json.Unmarshal([]byte(text), &members); err != nil {
				t.Fatal(err)
			}
			delete(members, "created_at")
			delete(members, "updated_at")
			delete(members, "revision")
			text, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			stripped[name][id] = string(text)
		}
	}
	return stripped
}

// queryExports runs the queries of docs/duckdb.md on the export files in dir and checks the
// results. entities and events are record counts, and late is the number of events with the name
// "late". earlier is the number of events in earlier.ndjson.gz, and kept is the number of these
// that were not erased later. greatest is the greatest value of the attribute n.
func queryExports(t *testing.T, dir string, entities, events, late, earlier, kept int, greatest int64) {
	t.Helper()
	root := child.ModuleRoot(t)
	got := run(t, dir, nil, "python", filepath.Join(root, "connectors", "testdata", "queries.py"), filepath.Join(root, "docs", "duckdb.md"))
	want := []string{
		"[]", "[]", // results of the statements that create views
		fmt.Sprintf("[[%d, %d]]", events, events),
		fmt.Sprintf("[[%d, %d]]", entities, entities),
		fmt.Sprintf(`[["late", %d], ["signed_up", %d]]`, late, events-late),
		fmt.Sprintf("[[%d]]", greatest),
		fmt.Sprintf("[[%d, %d]]", events, greatest),
		fmt.Sprintf("[[%d]]", earlier), // rows of event_copy
		fmt.Sprintf("[[%d]]", earlier-kept),
		fmt.Sprintf("[[%d]]", kept),
		fmt.Sprintf("[[%d]]", events), // rows of event.parquet
		fmt.Sprintf("[[%d]]", events), // rows of imported.ndjson
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || string(got[i]) != want[i] {
			t.Errorf("the queries return\n%s\nwant\n%s", bytes.Join(got, []byte("\n")), strings.Join(want, "\n"))
			return
		}
	}
}

// compareImport compares the file that docs/duckdb.md creates from a Parquet file with the events
// in that Parquet file. "sluice import" must be able to read each line of the file.
func compareImport(t *testing.T, path string, events table) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(table)
	for line := range bytes.Lines(text) {
		if _, err := event.Parse(line); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		got.put(t, line)
	}
	compare(t, "Parquet", tables{"event": got}, writable(t, tables{"event": events}))
}
