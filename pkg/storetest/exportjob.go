package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// ExportJobStore is an exportjob.Store that can also list its unfinished jobs.
type ExportJobStore interface {
	exportjob.Store
	exportjob.Backlog
}

// createdAt is the creation time of the test jobs. It is recent, because stores remove
// old jobs.
var exportJobCreatedAt = record.TimeOf(time.Now())

// laterExportJob returns the sum of createdAt and d.
func laterExportJob(d time.Duration) record.Time {
	return record.TimeOf(exportJobCreatedAt.Time().Add(d))
}

// ExportJobs calls open for an implementation of exportjob.Store and exportjob.Backlog, and tests
// it. Each call of open must return an empty store. Every change must be visible in the
// lists of the store immediately.
func ExportJobs(t *testing.T, open func(t *testing.T) ExportJobStore) {
	tests := []struct {
		name string
		run  func(t *testing.T, s ExportJobStore)
	}{
		{"Get returns a job as it was created or replaced", testExportJobReadBack},
		{"a repeated create changes nothing and returns the stored job", testRepeat},
		{"one of several concurrent replacements succeeds", testExportJobOneWinner},
		{"only the next revision replaces a job", testExportJobRevisions},
		{"workspaces are separate", testWorkspaces},
		{"missing jobs are not found", testExportJobNotFound},
		{"pages of any length contain every job once, newest first", testPages},
		{"the quota is exact for concurrent creates", testQuota},
		{"a job counts once, until it ends", testQuotaOfEachStatus},
		{"the largest job can be stored", testLargest},
		{"Unfinished returns the queued and running jobs of all workspaces", testExportJobUnfinished},
		{"a cancelled context is an error and changes nothing", testExportJobCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// plainExportJob returns a queued job with default values.
func plainExportJob(id string) exportjob.Job {
	return exportjob.Job{
		ID: id, Workspace: workspace, Resource: record.Event, Format: exportjob.NDJSON, Status: exportjob.Queued,
		CreatedAt: exportJobCreatedAt, Revision: 1,
	}
}

// full returns a job in which every field is set.
func full(id string) exportjob.Job {
	j := plainExportJob(id)
	when, n, text := laterExportJob(time.Hour), int64(1<<40), "a <reason> & \u2028 \x00"
	j.Format, j.CSVFormulas, j.Status = exportjob.CSV, exportjob.Keep, exportjob.Running
	j.Filters = exportjob.Filters{Type: "<&>😀", EntityID: "e", From: &when, To: &when}
	j.RecordsWritten, j.RecordsExpected, j.SizeBytes = n, &n, &n
	j.StartedAt, j.FinishedAt, j.FileExpiresAt, j.Error = &when, &when, &when, &text
	j.Progress = exportjob.Progress{
		Run: "run", Tries: 3, Upload: "upload", Parts: []string{`"etag"`, "b"}, Records: 5, Cursor: "cursor#\x00", Written: true,
		Survey: exportjob.Survey{Names: []string{"", "a", "<é>"}, Cursor: "c", Records: 9, Done: true},
	}
	return j
}

func create(t *testing.T, s ExportJobStore, j exportjob.Job) {
	t.Helper()
	if stored, created, err := s.Create(t.Context(), j, 100); !created || err != nil || !reflect.DeepEqual(stored, j) {
		t.Fatalf("create: created %v, error %v\n got %+v\nwant %+v", created, err, stored, j)
	}
}

func wantExportJob(t *testing.T, s ExportJobStore, j exportjob.Job) {
	t.Helper()
	if got, err := s.Get(t.Context(), j.Workspace, j.ID); err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("get: error %v\n got %+v\nwant %+v", err, got, j)
	}
}

func replaceExportJob(t *testing.T, s ExportJobStore, j exportjob.Job) {
	t.Helper()
	if stored, replaced, err := s.Replace(t.Context(), j); !replaced || err != nil || !reflect.DeepEqual(stored, j) {
		t.Fatalf("replace: replaced %v, error %v\n got %+v\nwant %+v", replaced, err, stored, j)
	}
}

func testExportJobReadBack(t *testing.T, s ExportJobStore) {
	create(t, s, plainExportJob("plain"))
	create(t, s, full("full"))
	wantExportJob(t, s, plainExportJob("plain"))
	wantExportJob(t, s, full("full"))
	j := full("plain")
	j.Revision = 2
	replaceExportJob(t, s, j)
	wantExportJob(t, s, j)
	j = plainExportJob("plain")
	j.Revision = 3
	replaceExportJob(t, s, j)
	wantExportJob(t, s, j)
	listed := full("full")
	listed.Progress = exportjob.Progress{}
	page, err := s.List(t.Context(), workspace, exportjob.Query{Limit: 10})
	if err != nil || page.More || !reflect.DeepEqual(page.Records, []exportjob.Job{j, listed}) {
		t.Errorf("list: %+v, error %v", page, err)
	}
}

func testRepeat(t *testing.T, s ExportJobStore) {
	create(t, s, full("a"))
	for _, again := range []exportjob.Job{full("a"), plainExportJob("a")} {
		if stored, created, err := s.Create(t.Context(), again, 1); created || err != nil || !reflect.DeepEqual(stored, full("a")) {
			t.Errorf("created %v, error %v, stored %+v", created, err, stored)
		}
	}
}

func testExportJobOneWinner(t *testing.T, s ExportJobStore) {
	create(t, s, plainExportJob("a"))
	var winners atomic.Int64
	var winner atomic.Pointer[exportjob.Job]
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			j := plainExportJob("a")
			j.Revision, j.Progress.Run = 2, fmt.Sprint(i)
			<-start
			stored, replaced, err := s.Replace(t.Context(), j)
			if err != nil || stored.Revision != 2 || replaced != (stored.Progress.Run == j.Progress.Run) {
				t.Errorf("replaced %v, error %v, stored %+v", replaced, err, stored)
			}
			if replaced {
				winners.Add(1)
				winner.Store(&j)
			}
		})
	}
	close(start)
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d replacements succeeded, want 1", winners.Load())
	}
	wantExportJob(t, s, *winner.Load())
}

func testExportJobRevisions(t *testing.T, s ExportJobStore) {
	j := plainExportJob("a")
	j.Revision = 5
	create(t, s, j)
	for _, revision := range []int64{0, 1, 4, 5, 7} {
		other := full("a")
		other.Revision = revision
		if stored, replaced, err := s.Replace(t.Context(), other); replaced || err != nil || !reflect.DeepEqual(stored, j) {
			t.Errorf("revision %d: replaced %v, error %v, stored %+v", revision, replaced, err, stored)
		}
	}
	wantExportJob(t, s, j)
}

func testWorkspaces(t *testing.T, s ExportJobStore) {
	workspaces := []string{"a", "ab", "A", "a.b", "export_jobs", "é"}
	for i, w := range workspaces {
		j := plainExportJob("shared")
		j.Workspace, j.RecordsWritten = w, int64(i)
		create(t, s, j)
	}
	for i, w := range workspaces {
		page, err := s.List(t.Context(), w, exportjob.Query{Limit: 10})
		if err != nil || len(page.Records) != 1 || page.More || page.Records[0].RecordsWritten != int64(i) || page.Records[0].Workspace != w {
			t.Errorf("workspace %s lists %+v, error %v", w, page, err)
		}
	}
	if page, err := s.List(t.Context(), "nobody", exportjob.Query{Limit: 10}); err != nil || len(page.Records) != 0 || page.More {
		t.Errorf("a workspace without jobs lists %+v, error %v", page, err)
	}
}

func testExportJobNotFound(t *testing.T, s ExportJobStore) {
	missing := func(w, id string) {
		t.Helper()
		j := plainExportJob(id)
		j.Workspace, j.Revision = w, 2
		_, getErr := s.Get(t.Context(), w, id)
		_, replaced, replaceErr := s.Replace(t.Context(), j)
		if record.KindOf(getErr) != record.NotFound || record.KindOf(replaceErr) != record.NotFound || replaced {
			t.Errorf("%s of %s: errors %v and %v", id, w, getErr, replaceErr)
		}
	}
	missing(workspace, "a")
	create(t, s, plainExportJob("ab"))
	missing(workspace, "a")
	missing("other", "ab")
}

func testPages(t *testing.T, s ExportJobStore) {
	var all []exportjob.Job
	for i, after := range []time.Duration{0, 0, time.Millisecond, -time.Hour, 0, 24 * time.Hour} {
		j := plainExportJob([]string{"a", "b", "a-", "z", "a0", "A"}[i])
		j.CreatedAt = laterExportJob(after)
		create(t, s, j)
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b exportjob.Job) int { return strings.Compare(b.Position().String(), a.Position().String()) })
	for _, limit := range []int{1, 2, 5, 6, 7} {
		var got []exportjob.Job
		q := exportjob.Query{Limit: limit}
		for pages := 1; ; pages++ {
			page, err := s.List(t.Context(), workspace, q)
			if err != nil || len(page.Records) == 0 || len(page.Records) > limit {
				t.Fatalf("limit %d: page %d is %+v, error %v", limit, pages, page, err)
			}
			got = append(got, page.Records...)
			if !page.More {
				break
			}
			before := page.Records[len(page.Records)-1].Position()
			q.Before = &before
		}
		if !reflect.DeepEqual(got, all) {
			t.Errorf("limit %d: got %+v", limit, got)
		}
	}
	between := record.Position{At: exportJobCreatedAt, ID: "a00"} // a position without a job
	page, err := s.List(t.Context(), workspace, exportjob.Query{Before: &between, Limit: 1})
	if err != nil || len(page.Records) != 1 || page.Records[0].ID != "a0" || !page.More {
		t.Errorf("before a position without a job: %+v, error %v", page, err)
	}
}

// testQuota creates 50 jobs at the same time, each of them twice.
func testQuota(t *testing.T, s ExportJobStore) {
	const quota, jobs = 10, 50
	other := plainExportJob("other")
	other.Workspace = "another"
	create(t, s, other)
	for round := range 2 { // in the second round, the quota has room for three jobs
		var created, refused atomic.Int64
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 2 * jobs {
			wg.Go(func() {
				<-start
				_, isNew, err := s.Create(t.Context(), plainExportJob(fmt.Sprint(round, "-", i/2)), quota)
				switch {
				case isNew && err == nil:
					created.Add(1)
				case record.KindOf(err) == record.TooMany:
					refused.Add(1)
				case err != nil:
					t.Errorf("create: %v", err)
				}
			})
		}
		close(start)
		wg.Wait()
		want := []int64{quota, 3}[round]
		if created.Load() != want || refused.Load() < 2*(jobs-want) {
			t.Fatalf("round %d: %d were created and %d creates refused; want %d and at least %d", round, created.Load(), refused.Load(), want, 2*(jobs-want))
		}
		keys, err := s.Unfinished(t.Context())
		if err != nil || len(keys) != quota+1 {
			t.Fatalf("unfinished are %v, error %v", keys, err)
		}
		keys = slices.DeleteFunc(keys, func(k exportjob.Key) bool { return k.Workspace != workspace })
		for i, status := range []exportjob.Status{exportjob.Succeeded, exportjob.Failed, exportjob.Cancelled} {
			j := plainExportJob(keys[i].ID)
			j.Status, j.Revision = status, 2
			replaceExportJob(t, s, j)
		}
	}
}

func testQuotaOfEachStatus(t *testing.T, s ExportJobStore) {
	tooMany := func(id string, quota int) bool {
		t.Helper()
		_, created, err := s.Create(t.Context(), plainExportJob(id), quota)
		if created == (err != nil) || err != nil && record.KindOf(err) != record.TooMany {
			t.Fatalf("create %s: created %v, error %v", id, created, err)
		}
		return !created
	}
	create(t, s, plainExportJob("a"))
	j := plainExportJob("a")
	for _, status := range []exportjob.Status{exportjob.Running, exportjob.Queued, exportjob.Running} {
		j.Status, j.Revision = status, j.Revision+1
		replaceExportJob(t, s, j)
		if !tooMany("b", 1) {
			t.Errorf("a job that is %s does not count", status)
		}
		if stored, created, err := s.Create(t.Context(), plainExportJob("a"), 1); created || err != nil || stored.Status != status {
			t.Errorf("repeat at the quota: created %v, error %v, stored %+v", created, err, stored)
		}
	}
	if tooMany("c", 2) {
		t.Error("an increased quota has no room for another job")
	}
	j.Status, j.Revision = exportjob.Failed, j.Revision+1
	replaceExportJob(t, s, j)
	j.Revision++
	replaceExportJob(t, s, j) // this replacement must not change the number of unfinished jobs again
	if !tooMany("d", 1) {
		t.Error("a job that has ended was subtracted from the count twice")
	}
}

// testLargest stores a job with the maximum progress of a CSV export. It has the maximum
// number of parts and the longest names of attributes that a worker allows. In JSON, each
// byte of these names takes six bytes.
func testLargest(t *testing.T, s ExportJobStore) {
	j := full("a")
	j.Progress.Parts, j.Progress.Survey.Names = nil, nil
	for range 4000 {
		j.Progress.Parts = append(j.Progress.Parts, `"d41d8cd98f00b204e9800998ecf8427e"`)
	}
	for range 2000 {
		j.Progress.Survey.Names = append(j.Progress.Survey.Names, strings.Repeat("\x01", 64000/6/2000))
	}
	create(t, s, j)
	wantExportJob(t, s, j)
}

func testExportJobUnfinished(t *testing.T, s ExportJobStore) {
	for i, status := range []exportjob.Status{exportjob.Queued, exportjob.Running, exportjob.Succeeded, exportjob.Failed, exportjob.Cancelled} {
		for _, w := range []string{"a", "b"} {
			j := plainExportJob(fmt.Sprint(i))
			j.Status, j.Workspace = status, w
			create(t, s, j)
		}
	}
	keys, err := s.Unfinished(t.Context())
	slices.SortFunc(keys, func(a, b exportjob.Key) int {
		return slices.Compare([]string{a.Workspace, a.ID}, []string{b.Workspace, b.ID})
	})
	if expected := []exportjob.Key{{Workspace: "a", ID: "0"}, {Workspace: "a", ID: "1"}, {Workspace: "b", ID: "0"}, {Workspace: "b", ID: "1"}}; err != nil || !slices.Equal(keys, expected) {
		t.Errorf("unfinished are %v, error %v; want %v", keys, err, expected)
	}
}

func testExportJobCancelled(t *testing.T, s ExportJobStore) {
	create(t, s, plainExportJob("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next := full("a")
	next.Revision = 2
	_, _, createErr := s.Create(ctx, plainExportJob("b"), 100)
	_, getErr := s.Get(ctx, workspace, "a")
	_, listErr := s.List(ctx, workspace, exportjob.Query{Limit: 1})
	_, _, replaceErr := s.Replace(ctx, next)
	for call, err := range map[string]error{"create": createErr, "get": getErr, "list": listErr, "replace": replaceErr} {
		if record.KindOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want kind Unavailable because of %v", call, err, context.Canceled)
		}
	}
	wantExportJob(t, s, plainExportJob("a"))
	if _, err := s.Get(t.Context(), workspace, "b"); record.KindOf(err) != record.NotFound {
		t.Errorf("get b: %v", err)
	}
}
