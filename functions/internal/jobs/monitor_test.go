package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// oldest has fixed results.
type oldest struct {
	created record.Time
	queued  bool
	err     error
}

func (o oldest) OldestQueued(context.Context) (record.Time, bool, error) {
	return o.created, o.queued, o.err
}

func TestHandle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) record.Time { return record.TimeOf(now.Add(-d)) }
	for name, c := range map[string]struct {
		jobs oldest
		want float64
	}{
		"no job is queued":                   {oldest{}, 0},
		"a job was queued a moment ago":      {oldest{created: before(1500 * time.Millisecond), queued: true}, 1.5},
		"a job has waited for two hours":     {oldest{created: before(2 * time.Hour), queued: true}, 7200},
		"the clock of its creator was ahead": {oldest{created: before(-time.Second), queued: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			m := monitor{kind: job.Kind{Name: "report"}, jobs: c.jobs, service: "sluice-test", now: func() time.Time { return now }, logger: slog.New(slog.NewJSONHandler(&log, nil))}
			if err := m.handle(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(log.Bytes(), &got); err != nil {
				t.Fatalf("%v\n%s", err, log.Bytes())
			}
			delete(got, "time")
			want := map[string]any{
				"level": "INFO", "msg": "report queue", "Service": "sluice-test", "OldestQueuedSeconds": c.want,
				"_aws": map[string]any{
					"Timestamp": float64(now.UnixMilli()),
					"CloudWatchMetrics": []any{map[string]any{
						"Namespace": "Sluice", "Dimensions": []any{[]any{"Service"}},
						"Metrics": []any{map[string]any{"Name": "OldestQueuedSeconds", "Unit": "Seconds"}},
					}},
				},
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestHandleLogsNoMetricIfTheTableCannotBeRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	unreadable := errors.New("the table cannot be read")
	m := monitor{jobs: oldest{err: unreadable}, now: time.Now, logger: slog.New(slog.NewJSONHandler(&log, nil))}
	if err := m.handle(t.Context()); !errors.Is(err, unreadable) {
		t.Errorf("error %v, want %v", err, unreadable)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.Bytes())
	}
}

func TestAFunctionNeedsATable(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	_, _, err := connect(t.Context(), job.Kind{Name: "report"}, func(string) string { return "" })
	if err == nil || !strings.Contains(err.Error(), "REPORT_JOBS_TABLE") {
		t.Errorf("without a table: error %v", err)
	}
}
