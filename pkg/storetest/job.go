package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

var reports = job.Kind{Name: "report", Keep: 24 * time.Hour}

// Jobs tests a job.Backlog. open returns an empty Backlog for a kind of job. Its lists must
// contain every change immediately.
func Jobs(t *testing.T, open func(t *testing.T, kind job.Kind) job.Backlog) {
	runAll(t, func(t *testing.T) job.Backlog { return open(t, reports) }, []test[job.Backlog]{
		{name: "a job is read back as it was stored", run: testJobWhole},
		{name: "a repeated create changes nothing and returns the stored job", run: testJobRepeat},
		{name: "one of several concurrent changes succeeds", run: testJobOneWinner},
		{name: "only the next revision replaces a job", run: testJobRevisions},
		{name: "workspaces are separate", run: testJobWorkspaces},
		{name: "missing jobs are not found", run: testJobMissing},
		{name: "pages of any length contain every job once, newest first", run: testJobPages},
		{name: "the quota is exact for concurrent creates", run: testJobQuota},
		{name: "a job counts once, until it ends", run: testJobCount},
		{name: "jobs without a quota are not counted", run: testJobUncounted},
		{name: "the largest checkpoint can be stored", run: testJobLargest},
		{name: "Unfinished returns the jobs of all workspaces that need a run", run: testJobUnfinished},
		{name: "concurrent requests leave one job with the latest bound", run: testJobConcurrentRequests},
		{name: "a request extends an unfinished job and replaces one that has ended", run: testJobRequest},
		{name: "a cancelled context is an error and changes nothing", run: testJobCancelled},
	})
}

// jobsCreatedAt is recent, because stores remove old jobs.
var jobsCreatedAt = time.Now().Truncate(time.Millisecond)

func plainJob(id string) job.Job {
	at := record.TimeOf(jobsCreatedAt)
	return job.Job{ID: id, Workspace: workspace, Status: job.Queued, CreatedAt: at, Until: at, Revision: 1, Quota: 100}
}

// fullJob returns a job with all fields set.
func fullJob(id string) job.Job {
	j := plainJob(id)
	at, reason := record.TimeOf(jobsCreatedAt.Add(time.Hour)), "a <reason> & \u2028 \x00"
	j.Status, j.Run, j.Tries = job.Running, "run", 3
	j.StartedAt, j.FinishedAt, j.ExpiresAt, j.Until, j.Error = &at, &at, &at, at, &reason
	j.Details, j.Checkpoint = encode(`<&>😀`, "e", 1<<40), encode("cursor#\x00", []string{`"etag"`, "", "<é>"})
	return j
}

func encode(parts ...any) json.RawMessage {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return text
}

func putJob(t *testing.T, s job.Store, j job.Job) {
	t.Helper()
	if stored, put, err := s.Put(t.Context(), j); !put || err != nil || !reflect.DeepEqual(stored, j) {
		t.Fatalf("put: %v, error %v\n got %+v\nwant %+v", put, err, stored, j)
	}
}

// replaceJob stores j as the next revision and returns it.
func replaceJob(t *testing.T, s job.Store, j job.Job) job.Job {
	t.Helper()
	j.Revision++
	putJob(t, s, j)
	return j
}

func wantJob(t *testing.T, s job.Store, j job.Job) {
	t.Helper()
	if got, err := s.Get(t.Context(), j.Workspace, j.ID); err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("get: error %v\n got %+v\nwant %+v", err, got, j)
	}
}

func testJobWhole(t *testing.T, s job.Backlog) {
	putJob(t, s, plainJob("plain"))
	putJob(t, s, fullJob("full"))
	putJob(t, s, plainJob(strings.Repeat("x", record.MaxIDLength)))
	wantJob(t, s, plainJob("plain"))
	wantJob(t, s, fullJob("full"))
	wantJob(t, s, plainJob(strings.Repeat("x", record.MaxIDLength)))
	j := fullJob("plain")
	j.Revision = 2
	putJob(t, s, j)
	wantJob(t, s, j)
	j = plainJob("plain")
	j.Revision = 3
	putJob(t, s, j)
	wantJob(t, s, j)
	listed := fullJob("full")
	listed.Checkpoint = nil
	want := []job.Job{plainJob(strings.Repeat("x", record.MaxIDLength)), j, listed}
	if page, err := s.List(t.Context(), workspace, "", 10); err != nil || page.Next != "" || !reflect.DeepEqual(page.Records, want) {
		t.Errorf("list: %+v, %q, error %v", page.Records, page.Next, err)
	}
}

func testJobRepeat(t *testing.T, s job.Backlog) {
	first := plainJob("a")
	first.Details = encode("first")
	putJob(t, s, first)
	other := plainJob("a")
	other.Quota = 1
	for _, again := range []job.Job{first, other} {
		if stored, put, err := s.Put(t.Context(), again); put || err != nil || !reflect.DeepEqual(stored, first) {
			t.Errorf("put %v, error %v, stored %+v", put, err, stored)
		}
	}
}

// Stores write a running job in a different way from a job that begins or ends.
func testJobOneWinner(t *testing.T, s job.Backlog) {
	for _, status := range []job.Status{job.Running, job.Cancelled} {
		j := fullJob(string(status))
		j.Revision = 1
		putJob(t, s, j)
		var winners atomic.Int64
		var winner atomic.Pointer[job.Job]
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				next := j
				next.Status, next.Revision, next.Run = status, 2, fmt.Sprint(i)
				<-start
				stored, put, err := s.Put(t.Context(), next)
				if err != nil || stored.Revision != 2 || put != (stored.Run == next.Run) {
					t.Errorf("put %v, error %v, stored %+v", put, err, stored)
				}
				if put {
					winners.Add(1)
					winner.Store(&next)
				}
			})
		}
		close(start)
		wg.Wait()
		if winners.Load() != 1 {
			t.Fatalf("%d changes succeeded, want 1", winners.Load())
		}
		wantJob(t, s, *winner.Load())
	}
}

func testJobRevisions(t *testing.T, s job.Backlog) {
	j := plainJob("a")
	putJob(t, s, j)
	for range 4 {
		j = replaceJob(t, s, j)
	}
	for _, revision := range []int64{0, 1, 4, 5, 7} {
		other := fullJob("a")
		other.Revision = revision
		if stored, put, err := s.Put(t.Context(), other); put || err != nil || !reflect.DeepEqual(stored, j) {
			t.Errorf("revision %d: put %v, error %v, stored %+v", revision, put, err, stored)
		}
	}
	wantJob(t, s, j)
}

func testJobWorkspaces(t *testing.T, s job.Backlog) {
	workspaces := []string{"a", "ab", "A", "a.b", "report_jobs", "é"}
	for i, w := range workspaces {
		j := plainJob("shared")
		j.Workspace, j.Details = w, encode(i)
		putJob(t, s, j)
	}
	for i, w := range workspaces {
		page, err := s.List(t.Context(), w, "", 10)
		if err != nil || len(page.Records) != 1 || page.Next != "" || !reflect.DeepEqual(page.Records[0].Details, encode(i)) || page.Records[0].Workspace != w {
			t.Errorf("workspace %s lists %+v, error %v", w, page.Records, err)
		}
	}
	if page, err := s.List(t.Context(), "nobody", "", 10); err != nil || len(page.Records) != 0 || page.Next != "" {
		t.Errorf("a workspace without jobs lists %+v, error %v", page.Records, err)
	}
}

func testJobMissing(t *testing.T, s job.Backlog) {
	missing := func(w, id string) {
		t.Helper()
		for _, status := range []job.Status{job.Running, job.Cancelled} { // stores write jobs of these two statuses in different ways
			j := fullJob(id)
			j.Workspace, j.Revision, j.Status = w, 2, status
			_, getErr := s.Get(t.Context(), w, id)
			_, put, putErr := s.Put(t.Context(), j)
			if record.CodeOf(getErr) != record.NotFound || record.CodeOf(putErr) != record.NotFound || put || !strings.Contains(getErr.Error(), "no report job") {
				t.Errorf("%s of %s: errors %v and %v", id, w, getErr, putErr)
			}
		}
	}
	missing(workspace, "a")
	putJob(t, s, plainJob("ab"))
	missing(workspace, "a")
	missing("other", "ab")
}

func testJobPages(t *testing.T, s job.Backlog) {
	var all []job.Job
	for i, after := range []time.Duration{0, 0, time.Millisecond, -time.Hour, 0, 24 * time.Hour} {
		j := plainJob([]string{"a", "b", "a-", "z", "a0", "A"}[i])
		j.CreatedAt = record.TimeOf(jobsCreatedAt.Add(after))
		putJob(t, s, j)
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b job.Job) int { return b.Position().Compare(a.Position()) })
	for _, limit := range []int{1, 2, 5, 6, 7} {
		var got []job.Job
		for cursor := record.Cursor(""); ; {
			page, err := s.List(t.Context(), workspace, cursor, limit)
			if err != nil || len(page.Records) == 0 || len(page.Records) > limit {
				t.Fatalf("limit %d: at %q there is %+v, error %v", limit, cursor, page.Records, err)
			}
			got = append(got, page.Records...)
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if !reflect.DeepEqual(got, all) {
			t.Errorf("limit %d: got %+v", limit, got)
		}
	}
	wantBadCursors(t, notPositions, func(cursor record.Cursor) error {
		_, err := s.List(t.Context(), workspace, cursor, 1)
		return err
	})
}

func isFull(err error) bool {
	_, full := errors.AsType[*job.QuotaError](err)
	return full
}

// testJobQuota creates 50 jobs concurrently, each of them twice.
func testJobQuota(t *testing.T, s job.Backlog) {
	const quota, count = 10, 50
	other := plainJob("other")
	other.Workspace = "another"
	putJob(t, s, other)
	for round := range 2 { // in the second round, the quota has room for three jobs
		var created, refused atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 2 * count {
			wg.Go(func() {
				j := plainJob(fmt.Sprint(round, "-", i/2))
				j.Quota = quota
				<-start
				_, put, err := s.Put(t.Context(), j)
				switch {
				case put && err == nil:
					created.Add(1)
				case isFull(err):
					refused.Add(1)
				case err != nil:
					t.Errorf("create: %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		want := []int64{quota, 3}[round]
		if created.Load() != want || refused.Load() < 2*(count-want) {
			t.Fatalf("round %d: %d were created and %d creates refused; want %d and at least %d", round, created.Load(), refused.Load(), want, 2*(count-want))
		}
		keys, err := s.Unfinished(t.Context())
		if err != nil || len(keys) != quota+1 {
			t.Fatalf("unfinished are %v, error %v", keys, err)
		}
		keys = slices.DeleteFunc(keys, func(k job.Key) bool { return k.Workspace != workspace })
		for i, status := range []job.Status{job.Succeeded, job.Failed, job.Cancelled} {
			j := reports.Finish(plainJob(keys[i].ID), status, jobsCreatedAt)
			j.Unclean = false
			replaceJob(t, s, j)
		}
	}
}

func testJobCount(t *testing.T, s job.Backlog) {
	tooMany := func(id string, quota int) bool {
		t.Helper()
		j := plainJob(id)
		j.Quota = quota
		_, put, err := s.Put(t.Context(), j)
		if put == (err != nil) || err != nil && !isFull(err) {
			t.Fatalf("create %s: put %v, error %v", id, put, err)
		}
		return !put
	}
	j := plainJob("a")
	j.Quota = 1
	putJob(t, s, j)
	started := record.TimeOf(jobsCreatedAt)
	for _, status := range []job.Status{job.Running, job.Queued, job.Running, job.Queued} {
		j.Status = status
		if status == job.Running {
			j.StartedAt = &started
		}
		j = replaceJob(t, s, j)
		if !tooMany("b", 1) {
			t.Errorf("a job that is %s does not count", status)
		}
		again := plainJob("a")
		again.Quota = 1
		if stored, put, err := s.Put(t.Context(), again); put || err != nil || stored.Status != status {
			t.Errorf("repeat at the quota: put %v, error %v, stored %+v", put, err, stored)
		}
	}
	if tooMany("c", 2) {
		t.Error("an increased quota has no room for another job")
	}
	j.StartedAt = nil
	j = replaceJob(t, s, j) // an unfinished job may start over, even if the quota is reached
	j.StartedAt = &started
	j = replaceJob(t, s, reports.Finish(j, job.Failed, jobsCreatedAt))
	j = replaceJob(t, s, j) // the count must not decrease again
	if !tooMany("d", 1) {
		t.Error("a job that has ended was subtracted from the count twice")
	}
	if tooMany("e", 2) {
		t.Error("a job that has ended still counts")
	}
	j.Status, j.StartedAt, j.FinishedAt, j.ExpiresAt, j.Quota, j.Revision = job.Queued, nil, nil, nil, 1, j.Revision+1
	if _, put, err := s.Put(t.Context(), j); put || !isFull(err) {
		t.Errorf("a job that begins again at the quota: put %v, error %v", put, err)
	}
}

func testJobUncounted(t *testing.T, s job.Backlog) {
	for i := range 3 {
		j := plainJob(fmt.Sprint(i))
		j.Quota = 0
		putJob(t, s, j)
		replaceJob(t, s, reports.Finish(j, job.Succeeded, jobsCreatedAt))
	}
	page, err := s.List(t.Context(), workspace, "", 10)
	if err != nil || len(page.Records) != 3 || page.Next != "" {
		t.Errorf("list: %+v, error %v", page.Records, err)
	}
}

func testJobLargest(t *testing.T, s job.Backlog) {
	j := fullJob("a")
	j.Revision = 1
	j.Checkpoint = encode(strings.Repeat("x", job.MaxCheckpoint-len(`[""]`)))
	putJob(t, s, j)
	wantJob(t, s, j)
}

func testJobUnfinished(t *testing.T, s job.Backlog) {
	want := func(ids ...string) {
		t.Helper()
		keys, err := s.Unfinished(t.Context())
		var got []string
		for _, k := range keys {
			got = append(got, k.Workspace+k.ID)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("unfinished are %v, error %v; want %v", got, err, ids)
		}
	}
	var unclean []job.Job
	for i, status := range []job.Status{job.Queued, job.Running, job.Succeeded, job.Failed, job.Cancelled} {
		for _, w := range []string{"a", "b"} {
			j := plainJob(fmt.Sprint(i))
			j.Workspace = w
			putJob(t, s, j)
			if j.Status = status; status.Final() {
				j = reports.Finish(j, status, jobsCreatedAt)
			}
			if j = replaceJob(t, s, j); j.Unclean {
				unclean = append(unclean, j)
			}
		}
	}
	want("a0", "a1", "a3", "a4", "b0", "b1", "b3", "b4")
	for _, j := range unclean {
		j.Unclean = false
		replaceJob(t, s, j)
	}
	want("a0", "a1", "b0", "b1")
}
