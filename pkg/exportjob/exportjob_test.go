package exportjob_test

import (
	"testing"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

func TestNamesOfFiles(t *testing.T) {
	created := record.TimeOf(time.Date(2026, 11, 22, 23, 59, 59, 0, time.UTC))
	for resource, want := range map[record.Resource][2]string{
		record.Entity: {"entities-2026-11-22.csv.gz", "a%2Fb%2E/entity-id.csv.gz"},
		record.Event:  {"events-2026-11-22.csv.gz", "a%2Fb%2E/event-id.csv.gz"},
	} {
		j := exportjob.Job{Workspace: "a/b.", ID: "id", Resource: resource, Format: exportjob.CSV, CreatedAt: created}
		if j.FileName() != want[0] || j.FileKey() != want[1] {
			t.Errorf("%s is saved as %s and stored as %s, want %s and %s", resource, j.FileName(), j.FileKey(), want[0], want[1])
		}
	}
}
