package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

const (
	byPosition = "by_position"
	unfinished = "unfinished"
	unclean    = "unclean"
)

// Jobs is the job.Backlog of one kind of job. It is safe for concurrent use. The table is
// named after the kind, such as "report_jobs", and has these indexes:
//
//   - by_position has all jobs, by the text form of Job.Position.
//   - unfinished has the jobs that have not ended, by id.
//   - unclean has the jobs that are Unclean, by id.
//   - by_expiry has the jobs that have ended.
type Jobs struct {
	table *table[job.Job]
	kind  job.Kind
}

// NewJobs fails if db is nil. Other stores may share db, which the caller closes.
func NewJobs(db *bbolt.DB, kind job.Kind) (*Jobs, error) {
	t, err := openTable(db, kind.Name+"_jobs", schema[job.Job]{func(j job.Job) string { return j.ID }, jobFields, jobEntries, nil})
	if err != nil {
		return nil, err
	}
	return &Jobs{table: t, kind: kind}, nil
}

// jobFields reads or writes a job as JSON.
func jobFields(f *fields, j *job.Job) {
	if f.writing {
		f.value, f.err = encode(j)
		return
	}
	*j, f.err = decode[job.Job](f.value)
	f.value = nil
}

func jobEntries(_ string, j job.Job) []entry {
	entries := []entry{{j.Position().String(), []string{byPosition}}}
	if j.Unclean {
		entries = append(entries, entry{j.ID, []string{unclean}})
	}
	switch {
	case !j.Status.Final():
		return append(entries, entry{j.ID, []string{unfinished}})
	case j.ExpiresAt != nil:
		expiry := record.Position{At: *j.ExpiresAt, ID: j.ID}
		return append(entries, entry{expiry.String(), []string{byExpiry}})
	}
	return entries
}

// Put implements job.Store. If j has ended, Put also removes some expired jobs.
func (s *Jobs) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	err = s.table.update(ctx, "put "+s.kind.String(), j.Workspace, func(jobs records[job.Job]) (err error) {
		stored, put, err = s.put(jobs, j)
		return err
	})
	if err != nil {
		return job.Job{}, false, err
	}
	return stored, put, nil
}

// put is Put within a transaction.
func (s *Jobs) put(jobs records[job.Job], j job.Job) (stored job.Job, put bool, err error) {
	was, exists, err := jobs.get(j.ID)
	put = was.Revision == j.Revision-1
	switch {
	case err != nil:
		return job.Job{}, false, err
	case !put && exists:
		return was, false, nil
	case !put:
		return job.Job{}, false, s.kind.NotFoundError(j.ID)
	case !exists: // a record may have a later stamp than a clock that was set back
		var at record.Time
		if at, err = storeTime(jobs.tx, j.CreatedAt.Time()); at.Compare(j.CreatedAt) > 0 {
			j.CreatedAt, j.Until = at, at
		}
	}
	begins := !exists || was.Status.Final()
	if err == nil && begins && !j.Status.Final() && j.Quota > 0 && countUnfinished(jobs) >= j.Quota {
		err = &job.QuotaError{Kind: s.kind, Quota: j.Quota}
	}
	if err == nil {
		err = jobs.put(j, was, exists)
	}
	if err == nil && j.Status.Final() {
		err = jobs.sweep(*j.FinishedAt)
	}
	return j, true, err
}

func countUnfinished(jobs records[job.Job]) (n int) {
	for range scan(jobs.index(unfinished), "", "", true) {
		n++
	}
	return n
}

func (s *Jobs) Get(ctx context.Context, workspace, id string) (job.Job, error) {
	return s.table.get(ctx, s.kind.String(), workspace, id)
}

func (s *Jobs) List(ctx context.Context, workspace string, cursor record.Cursor, limit int) (page record.Page[job.Job], err error) {
	_, high, err := record.Bounds(nil, nil, cursor, false)
	if err != nil {
		return page, err
	}
	err = s.table.view(ctx, "list "+s.kind.String()+"s", workspace, func(jobs records[job.Job]) (err error) {
		page, err = s.table.page(jobs.lookup(scan(jobs.index(byPosition), "", high, false), false), limit, nil)
		return err
	})
	for i := range page.Records {
		page.Records[i].Checkpoint = nil
	}
	return page, err
}

func (s *Jobs) Unfinished(context.Context) (keys []job.Key, err error) {
	err = s.table.viewAll(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(s.table.name))
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(workspace []byte) error {
			for _, index := range []string{unfinished, unclean} {
				for id := range scan(nested(all, string(workspace), index), "", "", true) {
					keys = append(keys, job.Key{Workspace: string(workspace), ID: string(id)})
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished %ss: %w", s.kind, err)
	}
	return keys, nil
}
