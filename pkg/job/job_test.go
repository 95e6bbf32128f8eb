package job_test

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// A new job does not wait behind long jobs.
func TestTheLaneOfAJob(t *testing.T) {
	t.Parallel()
	started := record.TimeOf(time.Now())
	for _, tt := range []struct {
		job  job.Job
		want job.Lane
	}{
		{job.Job{Status: job.Queued}, job.Fast},
		{job.Job{Status: job.Queued, StartedAt: &started}, job.Slow},
		{job.Job{Status: job.Cancelled, StartedAt: &started, Unclean: true}, job.Fast},
		{job.Job{Status: job.Cancelled, StartedAt: &started}, ""},
		{job.Job{Status: job.Running, StartedAt: &started}, ""},
		{job.Job{Status: job.Succeeded, StartedAt: &started}, ""},
		{job.Job{Status: job.Failed, StartedAt: &started}, ""},
	} {
		if got := tt.job.Lane(); got != tt.want {
			t.Errorf("%s, started at %v: %q, want %q", tt.job.Status, tt.job.StartedAt, got, tt.want)
		}
	}
}

func TestCreateGetAndCancel(t *testing.T) {
	t.Parallel()
	s, now := newStore(t), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s.queue(now)
	if j := s.Job(); j.Status != job.Queued || j.Revision != 1 || j.CreatedAt != record.TimeOf(now) || j.Until != j.CreatedAt {
		t.Errorf("created %+v", j)
	}
	again, created, err := job.Create(t.Context(), s, job.Job{Workspace: "default", ID: "job", Details: []byte("1")}, now.Add(time.Hour))
	if created || err != nil || again.Details != nil {
		t.Errorf("a repeated create: %+v, %v, error %v", again, created, err)
	}
	for range 2 { // the second call changes nothing
		j, err := reports.Cancel(t.Context(), s, "default", "job", now.Add(time.Minute))
		if err != nil || j.Status != job.Cancelled || j.Revision != 2 || *j.FinishedAt != record.TimeOf(now.Add(time.Minute)) {
			t.Errorf("cancelled: %+v, error %v", j, err)
		}
	}
	if _, err := reports.Cancel(t.Context(), s, "default", "none", now); record.CodeOf(err) != record.NotFound || !strings.Contains(err.Error(), "report job") {
		t.Errorf("canceling no job: error %v", err)
	}
	for after, kind := range map[time.Duration]record.Code{0: 0, reports.Keep - time.Millisecond: 0, reports.Keep: record.NotFound} {
		if _, err := reports.Get(t.Context(), s, "default", "job", now.Add(time.Minute).Add(after)); record.CodeOf(err) != kind {
			t.Errorf("%v after the end: error %v", after, err)
		}
	}
	for _, status := range []job.Status{job.Succeeded, job.Failed} {
		j := reports.Finish(job.Job{Workspace: "default", ID: string(status), Revision: 1}, status, now)
		if _, put, err := s.Put(t.Context(), j); !put || err != nil {
			t.Fatalf("put %v, error %v", put, err)
		}
		if _, err := reports.Cancel(t.Context(), s, "default", j.ID, now); record.CodeOf(err) != record.Conflict || !strings.Contains(err.Error(), "the report job has already "+j.ID) {
			t.Errorf("canceling a job that has %s: error %v", status, err)
		}
	}
}

func TestAQuotaErrorNamesItsKind(t *testing.T) {
	t.Parallel()
	const want = "the workspace has 10 report jobs that are queued or running, which is the maximum; wait until one has ended, or cancel one"
	if err := (&job.QuotaError{Kind: reports, Quota: 10}); err.Error() != want || err.Code() != "too_many_report_jobs" {
		t.Errorf("%s: %v", err.Code(), err)
	}
}
