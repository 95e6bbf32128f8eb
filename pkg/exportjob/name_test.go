package exportjob

import (
	"context"
	"testing"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// namedEvents notes the names of the queries. Its list has events of all names, as a list without a
// name has.
type namedEvents struct{ listed, counted string }

func (s *namedEvents) List(_ context.Context, _ string, q event.Query) (record.Page[event.Event], error) {
	s.listed = q.Name
	return record.Page[event.Event]{Records: []event.Event{{ID: "1", Name: "paid"}, {ID: "2", Name: "opened"}}}, nil
}

func (s *namedEvents) Count(_ context.Context, _ string, q event.Query, _ record.Time) (int64, error) {
	s.counted = q.Name
	return 7, nil
}

func TestAJobByNameReadsOnlyEventsOfThatNameIfTheyAreIndexed(t *testing.T) {
	t.Parallel()
	for state, tt := range map[index.State]struct {
		read  string
		count int64
	}{index.Building: {"", 1}, index.Ready: {"paid", 7}, index.Removing: {"", 1}} {
		d := index.EventNames("w")
		d.State = state
		indexed, events := new(index.Current), new(namedEvents)
		indexed.Store(index.NewSet([]index.Declaration{d}))
		r := &run{exporter: &Exporter{events: events, Config: Config{Indexes: indexed}}, job: &job.Run{Job: job.Job{Workspace: "w"}}}
		r.details.Resource, r.details.Filters.Name = record.Event, "paid"
		n, err := r.reader().count(t.Context())
		if err != nil || n != tt.count || events.counted != tt.read {
			t.Errorf("%s: counted %d of the name %q, error %v", state, n, events.counted, err)
		}
		p, err := r.reader().list(t.Context(), "")
		if err != nil || len(p.rows) != 1 || events.listed != tt.read {
			t.Errorf("%s: listed %d of the name %q, error %v", state, len(p.rows), events.listed, err)
		}
	}
}
