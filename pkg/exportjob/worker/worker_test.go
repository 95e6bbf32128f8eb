package worker_test

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

	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/worker"
	"sluice/pkg/record"
)

// small configures a worker to write several parts for a few records.
var small = worker.Config{PartBytes: 700, MaxTries: 1000}

func TestParseFileDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1": 1, "90": 90, "0": 0, "-1": 0, "": 0, "1.5": 0, "many": 0} {
		got, err := worker.ParseFileDays(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestAFileHasEachRecordOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for _, n := range []int{0, 1, 2, 60} {
			w := newWorld(t, resource, format, n, small)
			w.finish()
			w.checkFile()
			if len(w.uploads) > 0 {
				t.Errorf("%d records: an upload is left", n)
			}
		}
	})
}

// Whatever happens to one call of a run, later deliveries complete the job correctly.
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for _, what := range []fate{refused, lost, killed, killedAfter} {
			for step := 0; ; step++ {
				w := newWorld(t, resource, format, 25, small)
				calls := 0
				_ = w.deliver(t.Context(), &life{fate: func(string) fate {
					calls++
					if calls == step+1 {
						return what
					}
					return fine
				}})
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
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for n := int64(1); ; n++ {
			w := newWorld(t, resource, format, 25, small)
			l := new(life)
			l.lists.Store(n)
			if err := w.deliver(t.Context(), l); err == nil {
				break
			} else if !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			w.finish()
			w.checkFile()
		}
	})
}

func TestACancelledJobLeavesNothingAndStaysCancelled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for step := 1; ; step++ {
			w := newWorld(t, resource, format, 25, small)
			calls, late := 0, false
			err := w.deliver(t.Context(), &life{fate: func(string) fate {
				if calls++; calls == step {
					_, err := exportjob.Cancel(t.Context(), &life{world: w}, workspace, jobID, w.now)
					late = err != nil
				}
				return fine
			}})
			if calls < step || late {
				w.checkFile()
				break
			}
			if err != nil {
				t.Errorf("cancelled before call %d: %v", step, err)
			}
			w.finish()
			if w.job.Status != exportjob.Cancelled || w.job.FinishedAt == nil || len(w.uploads) > 0 || len(w.files) > 0 {
				t.Errorf("cancelled before call %d: %+v, uploads %v, files %v; %v", step, w.job, w.uploads, w.files, w.trace)
			}
		}
	})
}

// A job that is cancelled after its worker was killed leaves no file and no upload, no
// matter at which call the worker was killed. An upload whose id was not saved is the
// only exception. It remains until the bucket's rule for incomplete uploads removes it.
func TestAJobCancelledAfterItsWorkerWasKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for _, what := range []fate{killed, killedAfter} {
			for step := 1; ; step++ {
				w := newWorld(t, resource, format, 25, small)
				calls, last := 0, ""
				_ = w.deliver(t.Context(), &life{fate: func(call string) fate {
					if calls++; calls == step {
						last = call
						return what
					}
					return fine
				}})
				if _, err := exportjob.Cancel(t.Context(), &life{world: w}, workspace, jobID, w.now); err != nil || calls < step {
					break
				}
				w.finish()
				unknown := last == "start" || last == "replace running" && what == killed // whether the worker was killed before the id of the upload was saved
				if w.job.Status != exportjob.Cancelled || len(w.files) > 0 || len(w.uploads) > 0 && !unknown {
					t.Errorf("killed at call %d, %s: %+v, uploads %v, files %v; %v", step, last, w.job, w.uploads, w.files, w.trace)
				}
			}
		}
	})
}

// Deliveries are repeated or concurrent, workers are killed, calls fail or seem to
// fail, records are created and the job is cancelled, in any order.
func TestNoSequenceOfFaultsCorruptsAFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		resource := rapid.SampledFrom([]record.Resource{record.Entity, record.Event}).Draw(t, "resource")
		format := rapid.SampledFrom([]exportjob.Format{exportjob.NDJSON, exportjob.CSV}).Draw(t, "format")
		cfg := worker.Config{PartBytes: rapid.IntRange(1, 2000).Draw(t, "part bytes"), MaxTries: 1000}
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
			l.fate = func(call string) fate {
				if trouble == 0 {
					return fine
				}
				what := rapid.IntRange(0, 23).Draw(t, call)
				if what < 8 {
					trouble--
				}
				switch what {
				case 0, 1, 2, 3:
					return fate(what + 1)
				case 4, 5:
					if depth < 3 { // meanwhile, deliver the same job to another worker
						w.pending++
						deliver(depth + 1)
					}
				case 6:
					late++
					w.mu.Lock()
					w.insert(resource, late, record.TimeOf(w.now.Add(time.Second)), "late")
					w.mu.Unlock()
				case 7:
					if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
						_, _ = exportjob.Cancel(context.Background(), &life{world: w}, workspace, jobID, w.now)
					}
				}
				return fine
			}
			_ = w.deliver(context.Background(), l)
		}
		for w.pending > 0 && trouble > 0 {
			deliver(0)
		}
		w.finish()
		if w.job.Status != exportjob.Cancelled {
			w.checkFile()
		} else if len(w.files) > 0 {
			t.Errorf("a file is left; %v", w.trace)
		}
	})
}

func TestAJobFailsIfAllItsRunsFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		what   fate
		runs   int // number of runs until the job fails; only the first run makes progress
		reason string
	}{
		{"its worker is killed", killed, 5, "was started 3 times in a row and stopped"},
		{"its worker is killed between the upload of a part and the save of the job", killedAfter, 5, "was started 3 times in a row and stopped"},
		{"a call fails", refused, 4, "failed 3 times in a row at the same place"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, record.Event, exportjob.NDJSON, 60, worker.Config{PartBytes: 700, MaxTries: 3})
			puts := 0 // after the first part, every upload of a part fails
			runs := 0
			for ; w.pending > 0 && runs < 10; runs++ {
				_ = w.deliver(t.Context(), &life{fate: func(call string) fate {
					if call == "put" {
						if puts++; puts > 1 {
							return tt.what
						}
					}
					return fine
				}})
			}
			if runs != tt.runs {
				t.Errorf("%d runs, want %d", runs, tt.runs)
			}
			w.ended(tt.reason)
		})
	}
}

func TestAJobThatMakesProgressIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		w := newWorld(t, resource, format, 60, worker.Config{PartBytes: 700, MaxTries: 2})
		runs := 0
		for ; w.pending > 0 && runs < 100; runs++ {
			puts := 0
			_ = w.deliver(t.Context(), &life{fate: func(call string) fate {
				if call == "put" {
					if puts++; puts == 2 { // each run uploads one part and is killed at its second upload
						return killed
					}
				}
				return fine
			}})
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
		cfg := worker.Config{PartBytes: 700, Grace: 10 * time.Second, Now: time.Now, MaxTries: 2}
		w := newWorld(t, record.Event, exportjob.NDJSON, 90, cfg)
		runs := 0
		for ; w.pending > 0 && runs < 100; runs++ {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			before, began := w.job.Progress.Records, time.Now()
			if err := w.deliver(ctx, &life{pageTime: time.Second}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("a run of 20 s took %v", took)
			}
			cancel()
			if w.job.Status == exportjob.Queued && (w.job.Progress.Run != "" || w.job.RecordsWritten != w.job.Progress.Records || w.job.Progress.Records <= before) {
				t.Errorf("handed over with %d records before and now %+v", before, w.job)
			}
		}
		if runs < 3 {
			t.Errorf("only %d runs", runs)
		}
		w.checkFile()
	})
}

// Many records that were created after the job are between the job's records. Most
// runs end before they reach the next record of the job.
func TestRecordsCreatedAfterTheJobDoNotKeepItFromEnding(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		synctest.Test(t, func(t *testing.T) {
			cfg := worker.Config{PartBytes: 700, Now: time.Now, MaxTries: 2}
			w := newWorld(t, resource, format, 3, cfg)
			for i := range 300 {
				w.insert(resource, 1000+i, record.TimeOf(created.Add(time.Hour)), "late")
			}
			runs := 0
			for ; w.pending > 0 && runs < 100; runs++ {
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

// A run that saves the job but reads no further records makes no progress.
func TestAJobThatReadsNoFurtherRecordsFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		w := newWorld(t, resource, format, 0, worker.Config{MaxTries: 3, SaveEvery: time.Nanosecond})
		for i := range 30 {
			w.insert(resource, i, record.TimeOf(created.Add(time.Hour)), "late")
		}
		w.unreadable = w.records[20].key
		runs := 0
		for ; w.pending > 0 && runs < 20; runs++ {
			_ = w.deliver(t.Context(), new(life))
		}
		w.ended("failed 3 times in a row at the same place")
		if runs != 4 { // one run that made progress, and three runs that made no progress
			t.Errorf("%d runs", runs)
		}
	})
}

// Stopping the program does not count as a failed run, however often it happens.
func TestStoppingTheProgramQueuesTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, record.Event, exportjob.NDJSON, 60, worker.Config{PartBytes: 700, MaxTries: 1})
	for range 5 {
		ctx, stop := context.WithCancel(t.Context())
		err := w.deliver(ctx, &life{fate: func(call string) fate {
			if call != "get" {
				stop()
			}
			return fine
		}})
		stop()
		if err != nil || w.job.Status != exportjob.Queued || w.job.Progress.Run != "" {
			t.Fatalf("error %v, job %+v", err, w.job)
		}
	}
	w.finish()
	w.checkFile()
}

func TestAFileIsWrittenAgainIfItsUploadIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, resource record.Resource, format exportjob.Format) {
		for _, call := range []string{"put", "complete"} {
			w := newWorld(t, resource, format, 60, small)
			calls := 0
			err := w.deliver(t.Context(), &life{fate: func(c string) fate {
				if c == call {
					if calls++; calls == 1 && call == "complete" || calls == 3 {
						clear(w.uploads) // as the bucket's rule for incomplete uploads does
					}
				}
				return fine
			}})
			if !errors.Is(err, exportjob.ErrUpload) || w.job.Progress.Upload != "" || w.job.RecordsWritten != 0 || w.job.SizeBytes != nil {
				t.Errorf("gone before %s: error %v, job %+v", call, err, w.job)
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
		other   string // name of one more attribute
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
			w := newWorld(t, record.Event, exportjob.CSV, 1, worker.Config{})
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
	w := newWorld(t, record.Event, exportjob.NDJSON, 60, small)
	err := w.deliver(t.Context(), &life{fate: func(call string) fate {
		if call == "put" {
			parts++
		}
		return fine
	}})
	if err != nil || parts < 3 {
		t.Fatalf("%d parts, error %v", parts, err)
	}
	for most, reason := range map[int]string{parts: "", parts - 1: "The file would be larger than"} {
		cfg := small
		cfg.MaxParts = most
		w := newWorld(t, record.Event, exportjob.NDJSON, 60, cfg)
		if err := w.deliver(t.Context(), new(life)); err != nil {
			t.Fatal(err)
		}
		w.ended(reason)
	}
}

func TestRunOfAMissingJobSucceeds(t *testing.T) {
	t.Parallel()
	l := &life{world: newWorld(t, record.Event, exportjob.NDJSON, 1, small)}
	if err := l.worker().Run(t.Context(), workspace, "other"); err != nil {
		t.Error(err)
	}
	if l.job.Status != exportjob.Queued {
		t.Errorf("the other job is %+v", l.job)
	}
}

func TestAJobWaitsUntilItHasSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ age, wait time.Duration }{
			{0, 2 * time.Second}, {time.Second, time.Second}, {2 * time.Second, 0}, {time.Hour, 0},
			{-time.Hour, 2 * time.Second}, // the clock of the process that created the job is ahead
		} {
			cfg := worker.Config{Settle: 2 * time.Second, Now: func() time.Time { return created.Add(tt.age) }}
			w, began := newWorld(t, record.Event, exportjob.NDJSON, 1, cfg), time.Now()
			if err := w.deliver(t.Context(), new(life)); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited != tt.wait {
				t.Errorf("a job %v old waited %v, want %v", tt.age, waited, tt.wait)
			}
			w.checkFile()
		}
	})
}
