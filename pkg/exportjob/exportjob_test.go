package exportjob

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	created := record.TimeOf(time.Date(2026, 11, 22, 23, 59, 59, 0, time.UTC))
	for resource, want := range map[record.Resource][2]string{
		record.Entity: {"entities-2026-11-22.csv.gz", "a%2Fb%2E/entity-id.csv.gz"},
		record.Event:  {"events-2026-11-22.csv.gz", "a%2Fb%2E/event-id.csv.gz"},
	} {
		f := NewFile(job.Job{Workspace: "a/b.", ID: "id", CreatedAt: created}, api.ExportOrder{Resource: resource, Format: record.CSV})
		if f.Name != want[0] || f.Key != want[1] {
			t.Errorf("%s is saved as %s and stored as %s, want %s and %s", resource, f.Name, f.Key, want[0], want[1])
		}
	}
}

// The largest checkpoint has the most parts and the longest column names. In JSON, each byte of
// these names takes six bytes.
func TestTheLargestCheckpointCanBeStored(t *testing.T) {
	t.Parallel()
	p := checkpoint{
		Parts: slices.Repeat([]string{`"d41d8cd98f00b204e9800998ecf8427e"`}, 4000), Records: 1 << 40, Written: true,
		Cursor: record.Cursor(strings.Repeat("x", 200)), Survey: survey{Names: slices.Repeat([]string{strings.Repeat("\x01", maxColumnBytes/6/maxColumns)}, maxColumns), Records: 1 << 40, Done: true},
	}
	if text, err := json.Marshal(p); err != nil || len(text) > job.MaxCheckpoint {
		t.Errorf("%d bytes, error %v", len(text), err)
	}
}
