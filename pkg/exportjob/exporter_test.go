package exportjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/test/jobtest"
	"sluice/pkg/api"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// small makes a worker write several parts even for a few records.
var small = parts(700, 1000)

func parts(bytes, maxTries int) config {
	return config{Config: Config{PartBytes: bytes}, life: job.Config{MaxTries: maxTries}}
}

func TestParseFileDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1": 1, "90": 90, "0": 0, "-1": 0, "": 0, "1.5": 0, "many": 0} {
		got, err := ParseFileDays(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

// Whichever call fails, later deliveries complete the job.
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		for _, what := range []jobtest.Fate{jobtest.Refused, jobtest.Lost, jobtest.Killed, jobtest.KilledAfter} {
			for step := 0; ; step++ {
				w := newWorld(t, resource, format, 25, small)
				calls := 0
				_ = w.deliver(t.Context(), fated(func(string) jobtest.Fate {
					calls++
					if calls == step+1 {
						return what
					}
					return jobtest.Fine
				}))
				w.finish()
				w.checkFile()
				if calls <= step {
					break // every call of the run has been tested
				}
			}
		}
	})
}

func TestAnyPageMayFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		for n := int64(1); ; n++ {
			w := newWorld(t, resource, format, 25, small)
			l := new(life)
			l.lists.Store(n)
			if err := w.deliver(t.Context(), l); err == nil {
				break
			} else if !errors.Is(err, jobtest.ErrBroken) {
				t.Fatal(err)
			}
			w.finish()
			w.checkFile()
		}
	})
}

func TestACancelledJobLeavesNothingAndStaysCancelled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		for step := 1; ; step++ {
			w := newWorld(t, resource, format, 25, small)
			calls, late := 0, false
			err := w.deliver(t.Context(), fated(func(string) jobtest.Fate {
				if calls++; calls == step {
					_, err := Cancel(t.Context(), w.jobs, jobtest.Workspace, jobtest.ID, w.now)
					late = err != nil
				}
				return jobtest.Fine
			}))
			if calls < step || late {
				w.checkFile()
				break
			}
			if err != nil {
				t.Errorf("cancelled before call %d: %v", step, err)
			}
			w.finish()
			if w.jobs.Job().Status != job.Cancelled || w.jobs.Job().FinishedAt == nil || len(w.uploads) > 0 || len(w.files) > 0 {
				t.Errorf("cancelled before call %d: %+v, uploads %v, files %v; %v", step, w.jobs.Job(), w.uploads, w.files, w.jobs.Trace)
			}
		}
	})
}

// No matter when the worker is killed, the job leaves no file. It leaves an upload only if the
// upload's id was not saved; the bucket's rule for incomplete uploads removes it later.
func TestAJobCancelledAfterItsWorkerWasKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		for _, what := range []jobtest.Fate{jobtest.Killed, jobtest.KilledAfter} {
			for step := 1; ; step++ {
				w := newWorld(t, resource, format, 25, small)
				calls, last := 0, ""
				_ = w.deliver(t.Context(), fated(func(call string) jobtest.Fate {
					if calls++; calls == step {
						last = call
						return what
					}
					return jobtest.Fine
				}))
				if _, err := Cancel(t.Context(), w.jobs, jobtest.Workspace, jobtest.ID, w.now); err != nil || calls < step {
					break
				}
				w.finish()
				unknown := last == "start" || last == "put running" && what == jobtest.Killed // killed before the upload's id was saved
				if w.jobs.Job().Status != job.Cancelled || len(w.files) > 0 || len(w.uploads) > 0 && !unknown {
					t.Errorf("killed at call %d, %s: %+v, uploads %v, files %v; %v", step, last, w.jobs.Job(), w.uploads, w.files, w.jobs.Trace)
				}
			}
		}
	})
}

// Deliveries are repeated or concurrent, workers are killed, calls fail or seem to fail,
// records are created and the job is cancelled, all in any order.
func TestNoSequenceOfFaultsCorruptsAFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		resource := rapid.SampledFrom([]record.Resource{record.Entity, record.Event}).Draw(t, "resource")
		format := rapid.SampledFrom([]record.Format{record.NDJSON, record.CSV}).Draw(t, "format")
		cfg := parts(rapid.IntRange(1, 2000).Draw(t, "part bytes"), 1000)
		w := newWorld(t, resource, format, rapid.IntRange(0, 30).Draw(t, "records"), cfg)
		w.pageSize = rapid.IntRange(1, 9).Draw(t, "page")
		trouble, late := 12, 1_000_000
		var deliver func(depth int)
		deliver = func(depth int) {
			l := new(life)
			if trouble > 0 && rapid.IntRange(0, 9).Draw(t, "page fails") == 0 {
				trouble--
				l.lists.Store(int64(rapid.IntRange(1, 10).Draw(t, "after pages")))
			}
			l.Fate = func(call string) jobtest.Fate {
				if trouble == 0 {
					return jobtest.Fine
				}
				what := rapid.IntRange(0, 23).Draw(t, call)
				if what < 8 {
					trouble--
				}
				switch what {
				case 0, 1, 2, 3:
					return jobtest.Fate(what + 1)
				case 4, 5:
					if depth < 3 { // meanwhile, deliver the same job to another worker
						w.jobs.Pending++
						deliver(depth + 1)
					}
				case 6:
					late++
					w.mu.Lock()
					w.insert(resource, late, record.TimeOf(w.now.Add(time.Second)), "late")
					w.mu.Unlock()
				case 7:
					if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
						_, _ = Cancel(context.Background(), w.jobs, jobtest.Workspace, jobtest.ID, w.now)
					}
				}
				return jobtest.Fine
			}
			_ = w.deliver(context.Background(), l)
		}
		for w.jobs.Pending > 0 && trouble > 0 {
			deliver(0)
		}
		w.finish()
		if w.jobs.Job().Status != job.Cancelled {
			w.checkFile()
		} else if len(w.files) > 0 {
			t.Errorf("a file is left; %v", w.jobs.Trace)
		}
	})
}

func TestAJobThatMakesProgressIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		w := newWorld(t, resource, format, 60, parts(700, 2))
		runs := 0
		for ; w.jobs.Pending > 0 && runs < 100; runs++ {
			puts := 0
			_ = w.deliver(t.Context(), fated(func(call string) jobtest.Fate {
				if call == "put" {
					if puts++; puts == 2 { // each run uploads one part and is killed at its second upload
						return jobtest.Killed
					}
				}
				return jobtest.Fine
			}))
		}
		if runs < 5 {
			t.Errorf("only %d runs", runs)
		}
		w.checkFile()
	})
}

// In a synctest bubble, time passes only while all goroutines wait.
func TestARunHandsOverBeforeItsTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := parts(700, 2)
		cfg.life.Grace, cfg.life.Now = 10*time.Second, time.Now
		w := newWorld(t, record.Event, record.NDJSON, 90, cfg)
		runs := 0
		for ; w.jobs.Pending > 0 && runs < 100; runs++ {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			before, began := w.state(w.jobs.Job()).Records, time.Now()
			if err := w.deliver(ctx, &life{pageTime: time.Second}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("a run of 20 s took %v", took)
			}
			cancel()
			if now := w.state(w.jobs.Job()); w.jobs.Job().Status == job.Queued && (now.RecordsWritten != now.Records || now.Records <= before) {
				t.Errorf("handed over with %d records before and now %+v", before, now)
			}
		}
		if runs < 3 {
			t.Errorf("only %d runs", runs)
		}
		w.checkFile()
	})
}

// Most runs end before they reach the job's next record, because they must first read many
// records that were created after the job.
func TestRecordsCreatedAfterTheJobDoNotKeepItFromEnding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		synctest.Test(t, func(t *testing.T) {
			cfg := parts(700, 2)
			cfg.life.Now = time.Now
			w := newWorld(t, resource, format, 3, cfg)
			for i := range 300 {
				w.insert(resource, 1000+i, record.TimeOf(created.Add(time.Hour)), "late")
			}
			runs := 0
			for ; w.jobs.Pending > 0 && runs < 100; runs++ {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				l := &life{pageTime: time.Second}
				if err := w.deliver(ctx, l); err != nil {
					t.Fatal(err)
				}
				cancel()
			}
			if runs < 10 || runs > 30 {
				t.Errorf("%d runs", runs)
			}
			w.checkFile()
		})
	})
}

// A run that only saves the job makes no progress.
func TestAJobThatReadsNoFurtherRecordsFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		w := newWorld(t, resource, format, 0, config{Config: Config{SaveEvery: time.Nanosecond}, life: job.Config{MaxTries: 3}})
		for i := range 30 {
			w.insert(resource, i, record.TimeOf(created.Add(time.Hour)), "late")
		}
		w.unreadable = w.records[20].key
		runs := 0
		for ; w.jobs.Pending > 0 && runs < 20; runs++ {
			_ = w.deliver(t.Context(), new(life))
		}
		w.ended("failed 3 times in a row at the same place")
		if runs != 4 { // one that made progress, and three that made none
			t.Errorf("%d runs", runs)
		}
	})
}

func TestAFileIsWrittenAgainIfItsUploadIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format record.Format) {
		for _, call := range []string{"put", "complete"} {
			w := newWorld(t, resource, format, 60, small)
			calls := 0
			err := w.deliver(t.Context(), fated(func(c string) jobtest.Fate {
				if c == call {
					if calls++; calls == 1 && call == "complete" || calls == 3 {
						clear(w.uploads) // as the bucket's rule for incomplete uploads does
					}
				}
				return jobtest.Fine
			}))
			if left := w.state(w.jobs.Job()); !errors.Is(err, ErrUpload) || left.Upload != "" || left.RecordsWritten != 0 || left.SizeBytes != nil {
				t.Errorf("gone before %s: error %v, left %+v", call, err, left)
			}
			w.finish()
			w.checkFile()
		}
	})
}

func TestTooManyColumnsFailWithTheReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		columns int    // number of attributes
		other   string // name of one more attribute; "" for none
		reason  string
	}{
		{"the maximum number of columns", 2000, "", ""},
		{"one column too many", 2001, "", "more than 2000 different attributes"},
		{"names of maximum length", 0, strings.Repeat("x", 64000), ""},
		{"names one byte too long", 0, strings.Repeat("x", 64001), "64000 bytes of names"},
		{"escaped names of maximum length", 0, strings.Repeat("\x01", 64000/6), ""},
		{"escaped names one character too long", 0, strings.Repeat("\x01", 64000/6+1), "64000 bytes of names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, record.Event, record.CSV, 1, config{})
			var members []string
			for i := range tt.columns {
				members = append(members, fmt.Sprintf(`"%d":0`, i))
			}
			if tt.other != "" {
				name, err := json.Marshal(tt.other)
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, string(name)+":0")
			}
			for i := range w.records {
				w.records[i].event.Attributes = record.Attributes("{" + strings.Join(members, ",") + "}")
			}
			if err := w.deliver(t.Context(), new(life)); err != nil {
				t.Fatal(err)
			}
			w.ended(tt.reason)
		})
	}
}

func TestAFileOfTooManyPartsFailsWithTheReason(t *testing.T) {
	t.Parallel()
	parts := 0
	w := newWorld(t, record.Event, record.NDJSON, 60, small)
	err := w.deliver(t.Context(), fated(func(call string) jobtest.Fate {
		if call == "put" {
			parts++
		}
		return jobtest.Fine
	}))
	if err != nil || parts < 3 {
		t.Fatalf("%d parts, error %v", parts, err)
	}
	for most, reason := range map[int]string{parts: "", parts - 1: "The file would be larger than"} {
		cfg := small
		cfg.MaxParts = most
		w := newWorld(t, record.Event, record.NDJSON, 60, cfg)
		if err := w.deliver(t.Context(), new(life)); err != nil {
			t.Fatal(err)
		}
		w.ended(reason)
	}
}

// Whichever call of a deletion fails, the job never says that a file is deleted that exists, and
// another request completes the deletion.
func TestAFileIsDeletedBeforeItsJobSaysSo(t *testing.T) {
	t.Parallel()
	for _, what := range []jobtest.Fate{jobtest.Refused, jobtest.Lost, jobtest.KilledAfter} {
		for step := 1; ; step++ {
			w := newWorld(t, record.Event, record.CSV, 25, small)
			w.finish()
			calls := 0
			l := fated(func(string) jobtest.Fate {
				if calls++; calls == step {
					return what
				}
				return jobtest.Fine
			})
			l.world, l.Store = w, w.jobs
			deleteFile := func(l *life) (api.ExportJob, error) {
				return DeleteFile(t.Context(), l, filesOf{l}, jobtest.Workspace, jobtest.ID, w.now)
			}
			_, err := deleteFile(l)
			if says := w.state(w.jobs.Job()).FileDeletedAt != nil; says && len(w.files) > 0 {
				t.Errorf("call %d, fate %d: the file exists; %v", step, what, w.jobs.Trace)
			}
			if calls < step {
				if err != nil || calls != 3 {
					t.Errorf("%d calls, error %v", calls, err)
				}
				break
			}
			again := new(life)
			again.world, again.Store = w, w.jobs
			if j, err := deleteFile(again); err != nil || j.FileDeletedAt == nil || j.DownloadURL != nil || len(w.files) > 0 {
				t.Errorf("call %d, fate %d, repeated: %+v, files %v, error %v", step, what, j, w.files, err)
			}
		}
	}
}
