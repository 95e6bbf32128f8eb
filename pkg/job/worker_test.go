package job_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/test/jobtest"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Whichever call fails, later deliveries complete the job.
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	for _, what := range []jobtest.Fate{jobtest.Refused, jobtest.Lost, jobtest.Killed, jobtest.KilledAfter} {
		for step := 0; ; step++ {
			s, w := newStore(t), &steps{to: 5}
			s.queue(time.Now())
			calls := 0
			_ = s.deliver(t.Context(), &jobtest.Life{Fate: func(string) jobtest.Fate {
				if calls++; calls == step+1 {
					return what
				}
				return jobtest.Fine
			}}, w, job.Config{MaxTries: 1000})
			s.finish(w)
			s.wantDone(5)
			if calls <= step {
				break // every call of the run has been tested
			}
		}
	}
}

func TestACancelledJobIsCleanedUpAndStaysCancelled(t *testing.T) {
	t.Parallel()
	for _, what := range []jobtest.Fate{jobtest.Fine, jobtest.Killed, jobtest.KilledAfter} {
		for step := 1; ; step++ {
			s, w := newStore(t), &steps{to: 5}
			s.queue(time.Now())
			calls, late := 0, false
			_ = s.deliver(t.Context(), &jobtest.Life{Fate: func(string) jobtest.Fate {
				if calls++; calls != step {
					return jobtest.Fine
				}
				_, err := reports.Cancel(t.Context(), s, "default", "job", time.Now())
				late = err != nil
				return what
			}}, w, job.Config{})
			if calls < step || late {
				s.finish(w)
				s.wantDone(5)
				break
			}
			s.finish(w)
			if s.Job().Status != job.Cancelled || len(w.left) > 0 {
				t.Errorf("cancelled before call %d: %+v, left %v; %v", step, s.Job(), w.left, s.Trace)
			}
		}
	}
}

// Deliveries are repeated or concurrent, runs are killed, calls fail or seem to fail, and the
// job is cancelled, all in any order. A run that has lost the job does not change it: each
// step is counted once.
func TestNoSequenceOfFaultsCorruptsAJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, w := newStore(t), &steps{to: rapid.IntRange(0, 12).Draw(t, "steps")}
		s.queue(time.Now())
		trouble := 12
		var deliver func(depth int)
		deliver = func(depth int) {
			l := new(jobtest.Life)
			l.Fate = func(call string) jobtest.Fate {
				if trouble == 0 {
					return jobtest.Fine
				}
				what := rapid.IntRange(0, 15).Draw(t, call)
				if what < 7 {
					trouble--
				}
				switch what {
				case 0, 1, 2, 3:
					return jobtest.Fate(what + 1)
				case 4, 5:
					if depth < 3 { // meanwhile, deliver the same job to another worker
						s.Pending++
						deliver(depth + 1)
					}
				case 6:
					if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
						_, _ = reports.Cancel(context.Background(), s, "default", "job", time.Now())
					}
				}
				return jobtest.Fine
			}
			_ = s.deliver(context.Background(), l, w, job.Config{MaxTries: 1000})
		}
		for s.Pending > 0 && trouble > 0 {
			deliver(0)
		}
		s.finish(w)
		if s.Job().Status != job.Cancelled {
			s.wantDone(w.to)
		} else if len(w.left) > 0 {
			t.Errorf("left %v; %v", w.left, s.Trace)
		}
	})
}

// The other run takes the job in the middle of the first run, and fails.
func TestARunWhoseJobAnotherHasTakenChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.queue(time.Now())
	var taken job.Job
	err := s.deliver(t.Context(), new(jobtest.Life), does(func(ctx context.Context, r *job.Run) error {
		other := does(func(context.Context, *job.Run) error { return jobtest.ErrBroken })
		if err := s.deliver(ctx, new(jobtest.Life), other, job.Config{}); err == nil {
			t.Error("the other run did not fail")
		}
		taken = s.Job()
		if r.Save(count{1}, count{1}, true) == nil {
			t.Error("the first save succeeded")
		}
		return r.Save(count{2}, count{2}, true)
	}), job.Config{})
	if err != nil || !reflect.DeepEqual(s.Job(), taken) {
		t.Errorf("error %v, job %+v, want %+v", err, s.Job(), taken)
	}
}

// Only the first run makes progress.
func TestAJobFailsIfAllItsRunsFail(t *testing.T) {
	t.Parallel()
	const killedText = "The report was started 3 times in a row and stopped each time without progress. Ask again."
	for _, tt := range []struct {
		name   string
		save   jobtest.Fate // what happens to a save after the job's second step
		work   bool         // whether the run is killed during the second step instead
		runs   int          // how many runs it takes until the job fails
		reason string
	}{
		{"the run is killed before a save", jobtest.Killed, false, 5, killedText},
		{"the run is killed while it works", jobtest.Fine, true, 5, killedText},
		{"a call fails", jobtest.Refused, false, 4, "The report failed 3 times in a row at the same place. The service's log says why. Ask again."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, w := newStore(t), &steps{to: 5}
			s.queue(time.Now())
			var log bytes.Buffer
			runs := 0
			for ; s.Pending > 0 && runs < 10; runs++ {
				step := 0
				l := new(jobtest.Life)
				w.step = func(_ context.Context, n int) error {
					step = n
					if n == 2 && tt.work {
						l.Dead.Store(true)
						return jobtest.ErrDead
					}
					return nil
				}
				l.Fate = func(call string) jobtest.Fate {
					if call == "put running" && step == 2 {
						return tt.save
					}
					return jobtest.Fine
				}
				_ = s.deliver(t.Context(), l, w, job.Config{MaxTries: 3, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			}
			if runs != tt.runs {
				t.Errorf("%d runs, want %d; %v", runs, tt.runs, s.Trace)
			}
			wantFailed(t, s.Job(), tt.reason)
			if len(w.left) > 0 {
				t.Errorf("left %v", w.left)
			}
			wantFailureLogged(t, log.Bytes(), tt.reason)
		})
	}
}

// An alarm counts log lines with this message and a reason.
func wantFailureLogged(t *testing.T, log []byte, reason string) {
	t.Helper()
	n := 0
	for text := range bytes.Lines(log) {
		var line struct {
			Level, Msg, Reason, Workspace string
			ID                            string `json:"report_job"`
		}
		if err := json.Unmarshal(text, &line); err != nil || line.Workspace != "default" || line.ID != "job" {
			t.Errorf("%s: error %v", text, err)
		}
		if line.Msg == "report job failed" && line.Reason == reason && line.Level == "ERROR" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines report the failure:\n%s", n, log)
	}
}

func TestAJobThatGetsFurtherIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	s, w := newStore(t), &steps{to: 20}
	s.queue(time.Now())
	runs := 0
	for ; s.Pending > 0 && runs < 100; runs++ {
		puts := 0
		_ = s.deliver(t.Context(), &jobtest.Life{Fate: func(call string) jobtest.Fate {
			if strings.HasPrefix(call, "put") {
				if puts++; puts == 3 { // each run takes the job, completes a step, and is killed when it saves its second step
					return jobtest.Killed
				}
			}
			return jobtest.Fine
		}}, w, job.Config{MaxTries: 2})
	}
	if runs < 15 {
		t.Errorf("only %d runs", runs)
	}
	s.wantDone(20)
}

func TestAFailureEndsTheJobWithItsReason(t *testing.T) {
	t.Parallel()
	s, w := newStore(t), &steps{to: 5, step: func(_ context.Context, n int) error {
		if n == 3 {
			return job.Failure("There are too many pages.")
		}
		return nil
	}}
	s.queue(time.Now())
	s.finish(w)
	wantFailed(t, s.Job(), "There are too many pages.")
	if len(w.left) > 0 {
		t.Errorf("left %v", w.left)
	}
}

func TestAFailureEndsTheJobEvenIfTheTimeIsUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, w := newStore(t), &steps{to: 5, step: func(context.Context, int) error {
		cancel()
		return job.Failure("There are too many pages.")
	}}
	s.queue(time.Now())
	if err := s.deliver(ctx, new(jobtest.Life), w, job.Config{}); err != nil {
		t.Error(err)
	}
	wantFailed(t, s.Job(), "There are too many pages.")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// In a synctest bubble, time passes only while all goroutines wait.
func TestARunHandsOverWhenItsTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := newStore(t), &steps{to: 10, step: func(ctx context.Context, _ int) error { return pause(ctx, time.Second) }}
		s.queue(time.Now())
		for i := range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			began := time.Now()
			if err := s.deliver(ctx, new(jobtest.Life), w, job.Config{MaxTries: 2}); err != nil {
				t.Fatal(err)
			}
			cancel()
			var at count
			if err := s.Job().Decode(nil, &at); err != nil {
				t.Fatal(err)
			}
			if i < 3 && (s.Job().Status != job.Queued || at.N != 3*(i+1) || s.Job().Tries != 0 || time.Since(began) != 3500*time.Millisecond) {
				t.Errorf("run %d handed over after %v: %+v", i, time.Since(began), s.Job())
			}
		}
		s.wantDone(10)
	})
}

// A run may complete a call that it has begun, but only within Config.Grace.
func TestCallsEndAfterTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.queue(time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		err := s.deliver(ctx, new(jobtest.Life), does(func(_ context.Context, r *job.Run) error {
			<-r.Calls.Done()
			return r.Calls.Err()
		}), job.Config{Grace: 5 * time.Second})
		if took := time.Since(began); took != 15*time.Second || record.CodeOf(err) != record.Unavailable {
			t.Errorf("the run took %v, error %v", took, err)
		}
	})
}

type does func(ctx context.Context, r *job.Run) error

func (f does) Do(ctx context.Context, r *job.Run) (any, error) { return nil, f(ctx, r) }

func (does) Clean(context.Context, job.Job) error { return nil }

// A run that makes no progress before its time is up counts as a try.
func TestRunsThatGetNoFurtherInTimeEndWithAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.queue(time.Now())
		runs := 0
		for ; s.Pending > 0 && runs < 10; runs++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.deliver(ctx, new(jobtest.Life), does(func(ctx context.Context, _ *job.Run) error { return pause(ctx, time.Hour) }), job.Config{MaxTries: 3}); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		if runs != 4 {
			t.Errorf("%d runs", runs)
		}
		wantFailed(t, s.Job(), "was started 3 times in a row")
	})
}

// Stopping the program does not count as a failed run, even if the work then fails for another
// reason.
func TestStoppingTheProgramQueuesTheJob(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"in time": context.Canceled, "with an error": jobtest.ErrBroken} {
		s, w := newStore(t), &steps{to: 5}
		s.queue(time.Now())
		for range 5 {
			ctx, stop := context.WithCancel(t.Context())
			w.step = func(context.Context, int) error { stop(); return err }
			if err := s.deliver(ctx, new(jobtest.Life), w, job.Config{MaxTries: 1}); err != nil || s.Job().Status != job.Queued || s.Job().Tries != 0 {
				t.Fatalf("%s: error %v, job %+v", name, err, s.Job())
			}
		}
		w.step = nil
		s.finish(w)
		s.wantDone(5)
	}
}

// The response to a save is lost: in one case while the run's deadline passes, in the other on
// the last try.
func TestARunEndsTheJobAfterALostResponse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		maxTries int
		response time.Duration // how long it takes until the save fails
		status   job.Status
	}{
		"deadline": {5, 20 * time.Second, job.Queued},
		"last try": {1, time.Second, job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, w := newStore(t), &steps{to: 3}
				s.queue(time.Now())
				saves := 0
				l := &jobtest.Life{Fate: func(call string) jobtest.Fate {
					if saves++; saves != 3 { // the first two calls, a get and a put, take the job
						return jobtest.Fine
					}
					time.Sleep(tt.response)
					return jobtest.Lost
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := s.deliver(ctx, l, w, job.Config{MaxTries: tt.maxTries, Grace: time.Minute}); err != nil {
					t.Fatal(err)
				}
				var shown count
				if err := s.Job().Decode(&shown, nil); err != nil || s.Job().Status != tt.status || shown.N != 1 || s.Job().Run != "" {
					t.Errorf("the job is %+v with %+v, error %v", s.Job(), shown, err)
				}
			})
		})
	}
}

func TestARequestDuringARunStartsTheJobOver(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	now := time.Now()
	request := func() {
		t.Helper()
		now = now.Add(time.Second)
		if _, err := job.Request(t.Context(), s, job.Job{Workspace: "default", ID: "job"}, now); err != nil {
			t.Fatal(err)
		}
	}
	request()
	w := &steps{to: 5, step: func(_ context.Context, n int) error {
		if n == 3 && s.Job().Revision < 5 {
			request()
		}
		return nil
	}}
	if err := s.deliver(t.Context(), new(jobtest.Life), w, job.Config{}); err != nil {
		t.Fatal(err)
	}
	j := s.Job()
	if j.Status != job.Queued || j.Checkpoint != nil || j.Until != record.TimeOf(now) || string(j.Details) != `{"N":2}` {
		t.Errorf("after the request: %+v", j)
	}
	s.finish(w)
	s.wantDone(2 + 5)
	ended := s.Job()
	request()
	if j := s.Job(); j.Status != job.Queued || j.Details != nil || j.StartedAt != nil || j.Error != nil || j.CreatedAt == ended.CreatedAt || j.Lane() != job.Fast {
		t.Errorf("requested after its end: %+v", j)
	}
}

func TestARunOfAMissingJobSucceeds(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.queue(time.Now())
	if err := newWorker(t, s, &steps{}, job.Config{}).Run(t.Context(), "default", "other"); err != nil {
		t.Error(err)
	}
	if s.Job().Revision != 1 {
		t.Errorf("the other job is %+v", s.Job())
	}
}

func TestAJobThatHasEndedIsLeftAlone(t *testing.T) {
	t.Parallel()
	s, w := newStore(t), &steps{to: 1}
	s.queue(time.Now())
	s.finish(w)
	ended := s.Job().Revision
	if err := s.deliver(t.Context(), new(jobtest.Life), w, job.Config{}); err != nil || s.Job().Revision != ended || len(w.left) != 1 {
		t.Errorf("error %v, job %+v, left %v", err, s.Job(), w.left)
	}
}

func TestCleaningUpIsRepeatedIfItFails(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.queue(time.Now())
	if _, err := reports.Cancel(t.Context(), s, "default", "job", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := newWorker(t, s, brokenClean{}, job.Config{}).Run(t.Context(), "default", "job"); !errors.Is(err, jobtest.ErrBroken) {
		t.Errorf("error %v", err)
	}
}

type brokenClean struct{ job.Work }

func (brokenClean) Clean(context.Context, job.Job) error { return jobtest.ErrBroken }

func TestAJobWaitsUntilItHasSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		created := time.Now()
		for _, tt := range []struct{ age, wait time.Duration }{
			{0, 2 * time.Second}, {time.Second, time.Second}, {2 * time.Second, 0}, {time.Hour, 0},
			{-time.Hour, 2 * time.Second}, // the clock of the job's creator is ahead
		} {
			s, began := newStore(t), time.Now()
			s.queue(created)
			if err := s.deliver(t.Context(), new(jobtest.Life), &steps{to: 1}, job.Config{Settle: 2 * time.Second, Now: func() time.Time { return created.Add(tt.age) }}); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited != tt.wait {
				t.Errorf("a job %v old waited %v, want %v", tt.age, waited, tt.wait)
			}
			s.wantDone(1)
		}
	})
}
