package importfile_test

import (
	"strings"
	"testing"

	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

func TestAMirrorReplacesAndDeletes(t *testing.T) {
	t.Parallel()
	walk := strings.Join([]string{
		`{"id":"ada","type":"person","attributes":{"n":null},"revision":7,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z","erased_at":"2026-01-02T15:04:05.678Z"}`,
		`{"id":"bob","attributes":{}}`,
		`{"id":"eve","type":"person","revision":8,"created_at":"2026-01-02T15:04:05.678Z","deleted_at":"2026-01-02T15:04:05.678Z","deleted":true,"erased":true,"erased_at":"2026-01-02T15:04:05.678Z"}`,
		`{"id":"mal","type":"robot","revision":8,"updated_at":"2026-01-02T15:04:05.678Z","deleted":true,"reason":"filter"}`,
		`{"deleted":true}`,
		`{"id":"if","if_revision":1}`,
	}, "\n")
	ada, eve := `{"id":"ada","type":"person","attributes":{"n":null},"replace":true}`, `{"id":"eve","deleted":true}`
	needsID, condition := "id is required", "if_revision has no effect"
	for name, tt := range map[string]struct {
		d    importfile.Description
		file string
		want []string // records, or what their errors contain
	}{
		"a walk": {importfile.Description{}, walk, []string{ada, `{"id":"bob","attributes":{},"replace":true}`, eve, "has left the filter", needsID, condition}},
		"a walk with a filter": {
			importfile.Description{Type: "person"}, walk,
			[]string{ada, `{"id":"bob","type":"person","attributes":{},"replace":true}`, eve, `{"id":"mal","deleted":true}`, needsID, condition},
		},
		"members with other names": {
			importfile.Description{Columns: []importfile.Column{{Source: "key", Field: "id"}}}, strings.ReplaceAll(walk[:strings.Index(walk, `{"id":"mal"`)], `"id"`, `"key"`),
			[]string{ada, `{"id":"bob","attributes":{},"replace":true}`, eve},
		},
		"a table": {
			importfile.Description{Format: record.CSV}, "id,type,attributes.n,deleted\nada,person,1,\neve,,,true\nbob,,,FALSE\n",
			[]string{`{"id":"ada","type":"person","attributes":{"n":1},"replace":true}`, eve, `{"id":"bob","attributes":{},"replace":true}`},
		},
	} {
		tt.d.Resource, tt.d.Mirror = record.Entity, true
		if tt.d.Format == "" {
			tt.d.Format = record.NDJSON
		}
		rows, err := read([]byte(tt.file), tt.d)
		if err != nil || len(rows) != len(tt.want) {
			t.Errorf("%s: %d rows, error %v", name, len(rows), err)
			continue
		}
		for i, row := range rows {
			got := string(row.JSON())
			if row.Err != nil {
				got = row.Err.Error()
			}
			if got != tt.want[i] && (row.Err == nil || !strings.Contains(got, tt.want[i])) {
				t.Errorf("%s, row %d: %s; want %s", name, i, got, tt.want[i])
			}
		}
	}
	report, err := importfile.Survey(strings.NewReader(walk+"\n"+`{"id":"bob"}`), importfile.Description{Resource: record.Entity, Format: record.NDJSON, Mirror: true, Type: "person"}, importfile.Options{}, nil)
	notes := strings.Join(report.Notes, "\n")
	if err != nil || report.Valid != 5 || report.Deleted != 2 || !strings.Contains(notes, "delete their entity: 2; that create or replace a whole one: 3") || !strings.Contains(notes, "first those at 2 and 7; the last of them counts") || !strings.Contains(notes, "created_at, updated_at, erased_at, deleted_at, erased are left out") {
		t.Errorf("the survey reports %+v, %v", report, err)
	}
	if err := (importfile.Description{Resource: record.Event, Format: record.NDJSON, Mirror: true}).Check(); err == nil {
		t.Error("events can be mirrored")
	}
}
