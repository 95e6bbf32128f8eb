package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"sluice/pkg/index"
	"sluice/pkg/record"
)

type oldest struct {
	created record.Time
	ok      bool
	err     error
}

func (o oldest) OldestUnfinished(context.Context) (record.Time, bool, error) {
	return o.created, o.ok, o.err
}

func watch(log *bytes.Buffer, now time.Time, reports, copies oldest) monitor {
	return monitor{
		kinds:   []watched{{"report", reports}, {"copy", copies}},
		service: "sluice-test", now: func() time.Time { return now }, logger: slog.New(slog.NewJSONHandler(log, nil)),
	}
}

func TestTheMonitorReportsTheOldestJobOfAnyKind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) oldest { return oldest{created: record.TimeOf(now.Add(-d)), ok: true} }
	for name, c := range map[string]struct {
		reports, copies oldest
		want            [3]float64 // ages of the oldest report, of the oldest copy and of the oldest job, in seconds
	}{
		"no job is unfinished":               {oldest{}, oldest{}, [3]float64{0, 0, 0}},
		"a job was created a moment ago":     {before(1500 * time.Millisecond), oldest{}, [3]float64{1.5, 0, 1.5}},
		"a job of each kind":                 {before(time.Minute), before(2 * time.Hour), [3]float64{60, 7200, 7200}},
		"the clock of its creator was ahead": {before(-time.Second), oldest{}, [3]float64{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			if err := watch(&log, now, c.reports, c.copies).handle(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(log.Bytes(), &got); err != nil {
				t.Fatalf("%v\n%s", err, log.Bytes())
			}
			delete(got, "time")
			want := map[string]any{
				"level": "INFO", "msg": "jobs", "Service": "sluice-test",
				"report_seconds": c.want[0], "copy_seconds": c.want[1], "OldestUnfinishedSeconds": c.want[2],
				"_aws": map[string]any{
					"Timestamp": float64(now.UnixMilli()),
					"CloudWatchMetrics": []any{map[string]any{
						"Namespace": "Sluice", "Dimensions": []any{[]any{"Service"}},
						"Metrics": []any{map[string]any{"Name": "OldestUnfinishedSeconds", "Unit": "Seconds"}},
					}},
				},
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestTheMonitorLogsNoMetricIfATableCannotBeRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	unreadable := errors.New("the table cannot be read")
	if err := watch(&log, time.Now(), oldest{}, oldest{err: unreadable}).handle(t.Context()); !errors.Is(err, unreadable) {
		t.Errorf("error %v, want %v", err, unreadable)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.Bytes())
	}
}

type declared struct {
	index.Store
	all []index.Declaration
}

func (d declared) List(context.Context) ([]index.Declaration, error) { return d.all, nil }

func TestAnUnfinishedIndexIsAsOldAsItsLastProgress(t *testing.T) {
	t.Parallel()
	all := []index.Declaration{{State: index.Ready, Revision: 1e6}, {State: index.Building, Revision: 3e6}, {State: index.Removing, Revision: 2e6}}
	if at, ok, err := (declarations{declared{all: all}}).OldestUnfinished(t.Context()); !ok || err != nil || at != record.TimeOf(time.Unix(2, 0)) {
		t.Errorf("%s %v, error %v", at, ok, err)
	}
	if _, ok, err := (declarations{declared{all: all[:1]}}).OldestUnfinished(t.Context()); ok || err != nil {
		t.Errorf("%v, error %v, although all are ready", ok, err)
	}
}
