package record_test

import (
	"testing"
	"time"

	"sluice/pkg/record"
)

func TestSyncedUntil(t *testing.T) {
	t.Parallel()
	at := func(second int) record.Time { return record.TimeOf(time.Unix(int64(second), 0)) }
	cursor := func(second int) record.Cursor {
		if second == 0 {
			return ""
		}
		return record.Cursor(record.Position{At: at(second), ID: "a"}.String())
	}
	for _, tt := range []struct {
		since, before, next, settled int // next and before are 0 for the last and the first page
		want                         int
		fixed                        bool
	}{
		{since: 10, next: 20, settled: 30, want: 20},
		{since: 10, next: 29, settled: 30, want: 29},
		{since: 10, next: 30, settled: 30, want: 30, fixed: true},
		{since: 10, next: 40, settled: 30, want: 30, fixed: true},
		{since: 10, settled: 30, want: 30, fixed: true},
		{since: 10, settled: 5, want: 10, fixed: true},
		{since: 10, next: 12, settled: 5, want: 10, fixed: true},
		{since: 10, before: 20, next: 25, settled: 30, want: 25},
		{since: 10, before: 20, next: 25, settled: 18, want: 20, fixed: true},
		{since: 10, before: 20, settled: 18, want: 20, fixed: true},
	} {
		q := record.SyncQuery{Since: at(tt.since), Cursor: cursor(tt.before)}
		if got, fixed := q.SyncedUntil(cursor(tt.next), at(tt.settled)); got != at(tt.want) || fixed != tt.fixed {
			t.Errorf("%+v: synced until %s, fixed %v", tt, got, fixed)
		}
	}
}
