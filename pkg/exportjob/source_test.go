package exportjob

import (
	"slices"
	"testing"
	"time"

	"sluice/pkg/record"
)

func TestEventsThatHadExpiredAreNotInTheFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, record.Event, record.NDJSON, 30, small)
	for i := range w.records {
		e := &w.records[i].event
		e.ExpiresAt = record.TimeOf(created.Add(time.Second))
		if i%3 == 0 {
			e.ExpiresAt = record.TimeOf(created)
			w.want = slices.DeleteFunc(w.want, func(id string) bool { return id == e.ID })
		}
	}
	w.finish()
	w.checkFile()
}
