package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

const (
	unfinished = "unfinished"
	byExpiry   = "by_expiry"
)

// Jobs is the job.Backlog of one kind. It is safe for concurrent use.
//
// The bucket of the kind, such as report_jobs, holds a bucket for each workspace, with these
// buckets. The value of each entry but those of by_id is the id of the job.
//
//   - by_id has the jobs, as JSON, by their ids.
//   - by_position has all jobs by record.Position.String, the order of lists.
//   - unfinished has those that have not ended, by their ids.
//   - by_expiry has the others, by the text of a record.Position of their expiry and id.
type Jobs struct {
	db         *bbolt.DB
	kind       job.Kind
	workspaces *workspaces
}

// NewJobs returns the store of a kind's jobs in db, which other stores may share. The caller
// closes db.
func NewJobs(db *bbolt.DB, kind job.Kind) (*Jobs, error) {
	workspaces, err := openWorkspaces(db, kind.Name+"_jobs")
	if err != nil {
		return nil, fmt.Errorf("bolt: %w", err)
	}
	return &Jobs{db: db, kind: kind, workspaces: workspaces}, nil
}

// Put implements job.Store. If j has ended, it also removes some jobs that have expired.
func (s *Jobs) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	err = s.workspaces.update(ctx, "put "+s.kind.String(), j.Workspace, func(b *bbolt.Bucket) error {
		was, exists, err := readJob(b, j.ID)
		stored, put = was, was.Revision == j.Revision-1
		switch {
		case err != nil:
			return err
		case !put && exists:
			return nil
		case !put:
			return s.kind.NotFoundError(j.ID)
		case exists:
			err = removeJob(b, was)
		}
		begins := !exists || was.Status.Final()
		switch {
		case err != nil:
			return err
		case j.Status.Final():
			err = sweepJobs(b, *j.FinishedAt)
		case begins && j.Quota > 0 && countJobs(b) >= j.Quota:
			err = s.kind.TooManyError(j.Quota)
		}
		stored = j
		return errors.Join(err, putJob(b, j))
	})
	if err != nil {
		return job.Job{}, false, err
	}
	return stored, put, nil
}

// countJobs returns the number of unfinished jobs in the bucket of a workspace.
func countJobs(b *bbolt.Bucket) (n int) {
	for range scan(b.Bucket([]byte(unfinished)), "", "", true) {
		n++
	}
	return n
}

// sweepJobs removes some of the jobs that expired before now.
func sweepJobs(b *bbolt.Bucket, now record.Time) error {
	for _, id := range expired(b.Bucket([]byte(byExpiry)), now) {
		j, _, err := readJob(b, id)
		if err := errors.Join(err, removeJob(b, j)); err != nil {
			return err
		}
	}
	return nil
}

// jobKeys returns the key of j in each bucket that has it.
func jobKeys(j job.Job) map[string]string {
	keys := map[string]string{byID: j.ID, byPosition: j.Position().String()}
	if !j.Status.Final() {
		keys[unfinished] = j.ID
	} else if j.ExpiresAt != nil {
		keys[byExpiry] = record.Position{At: *j.ExpiresAt, ID: j.ID}.String()
	}
	return keys
}

// putJob stores j in the bucket of its workspace.
func putJob(b *bbolt.Bucket, j job.Job) error {
	whole, err := json.Marshal(j)
	for bucket, key := range jobKeys(j) {
		in, createErr := b.CreateBucketIfNotExists([]byte(bucket))
		if err = errors.Join(err, createErr); err != nil {
			return err
		}
		value := []byte(j.ID)
		if bucket == byID {
			value = whole
		}
		if err = in.Put([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

// removeJob removes j from the bucket of its workspace.
func removeJob(b *bbolt.Bucket, j job.Job) error {
	for bucket, key := range jobKeys(j) {
		if err := b.Bucket([]byte(bucket)).Delete([]byte(key)); err != nil {
			return err
		}
	}
	return nil
}

// readJob returns a job from the bucket of its workspace, and whether it exists.
func readJob(b *bbolt.Bucket, id string) (j job.Job, exists bool, err error) {
	jobs := b.Bucket([]byte(byID))
	if jobs == nil || jobs.Get([]byte(id)) == nil {
		return job.Job{}, false, nil
	}
	err = json.Unmarshal(jobs.Get([]byte(id)), &j)
	return j, true, err
}

// Get implements job.Store.
func (s *Jobs) Get(ctx context.Context, workspace, id string) (j job.Job, err error) {
	exists := false
	err = s.workspaces.view(ctx, "get "+s.kind.String(), workspace, func(b *bbolt.Bucket) (err error) {
		j, exists, err = readJob(b, id)
		return err
	})
	if err == nil && !exists {
		err = s.kind.NotFoundError(id)
	}
	return j, err
}

// List implements job.Store.
func (s *Jobs) List(ctx context.Context, workspace string, after *record.Position, limit int) (page record.Page[job.Job], err error) {
	before := ""
	if after != nil {
		before = after.String()
	}
	err = s.workspaces.view(ctx, "list "+s.kind.String()+"s", workspace, func(b *bbolt.Bucket) error {
		for position, id := range scan(b.Bucket([]byte(byPosition)), "", before, false) {
			if string(position) == before {
				continue
			}
			if page.More = len(page.Records) == limit; page.More {
				return nil
			}
			j, _, err := readJob(b, string(id))
			if err != nil {
				return err
			}
			j.Progress = nil
			page.Records = append(page.Records, j)
		}
		return nil
	})
	return page, err
}

// Unfinished implements job.Backlog.
func (s *Jobs) Unfinished(context.Context) (keys []job.Key, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(s.workspaces.name))
		return all.ForEachBucket(func(workspace []byte) error {
			for id := range scan(all.Bucket(workspace).Bucket([]byte(unfinished)), "", "", true) {
				keys = append(keys, job.Key{Workspace: string(workspace), ID: string(id)})
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished %ss: %w", s.kind, err)
	}
	return keys, nil
}
