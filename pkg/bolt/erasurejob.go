package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/erasurejob"
	"sluice/pkg/record"
)

const (
	erasureJobsBucket = "erasure_jobs"
	byExpiry          = "erasure_jobs_by_expiry"
)

// ErasureJobs is an erasurejob.Store and erasurejob.Backlog. It is safe for concurrent use.
//
// It keeps erasure jobs in a bbolt file, so that a local server needs no
// database.
//
// The file has these buckets. Each of them contains one bucket per workspace:
//
//   - erasure_jobs maps each id to the job (erasurejob.Marshal).
//   - erasure_jobs_by_expiry has an entry for each job that has ended. The key is the text
//     of a record.Position with the job's time of expiry and id. The value is the id.
type ErasureJobs struct {
	db         *bbolt.DB
	workspaces *workspaces
}

// NewErasureJobs returns a Store in db, which other stores may share. The caller closes db.
func NewErasureJobs(db *bbolt.DB) (*ErasureJobs, error) {
	workspaces, err := openWorkspaces(db, erasureJobsBucket)
	if err != nil {
		return nil, fmt.Errorf("bolt: %w", err)
	}
	return &ErasureJobs{db: db, workspaces: workspaces}, nil
}

// Get implements erasurejob.Store.
func (s *ErasureJobs) Get(ctx context.Context, workspace, id string) (j erasurejob.Job, err error) {
	exists := false
	err = s.workspaces.view(ctx, "get erasure job", workspace, func(jobs *bbolt.Bucket) (err error) {
		if value := jobs.Get([]byte(id)); value != nil {
			exists = true
			j, err = erasurejob.Unmarshal(value)
		}
		return err
	})
	if err == nil && !exists {
		err = erasurejob.NotFoundError(id)
	}
	return j, err
}

// Replace implements erasurejob.Store.
func (s *ErasureJobs) Replace(ctx context.Context, j erasurejob.Job) (replaced bool, err error) {
	err = s.workspaces.update(ctx, "replace erasure job", j.Workspace, func(jobs *bbolt.Bucket) error {
		replaced = false
		var was erasurejob.Job
		if value := jobs.Get([]byte(j.ID)); value != nil {
			var err error
			if was, err = erasurejob.Unmarshal(value); err != nil {
				return err
			}
		}
		if was.Revision != j.Revision-1 {
			return nil
		}
		replaced = true
		expiries, err := createBucket(jobs.Tx(), byExpiry, j.Workspace)
		if err != nil {
			return err
		}
		if at, ok := was.ExpiresAt(); ok {
			if err := expiries.Delete(erasureJobExpiry(at, j.ID)); err != nil {
				return err
			}
		}
		if at, ok := j.ExpiresAt(); ok {
			if err := sweepErasureJobs(jobs, expiries, *j.FinishedAt); err != nil {
				return err
			}
			if err := expiries.Put(erasureJobExpiry(at, j.ID), []byte(j.ID)); err != nil {
				return err
			}
		}
		value, err := erasurejob.Marshal(j)
		if err != nil {
			return err
		}
		return jobs.Put([]byte(j.ID), value)
	})
	return replaced && err == nil, err
}

// erasureJobExpiry returns the key of a job in erasure_jobs_by_expiry. The key contains the given time
// of expiry and the id of the job.
func erasureJobExpiry(at time.Time, id string) []byte {
	return []byte(record.Position{At: record.TimeOf(at), ID: id}.String())
}

// sweepErasureJobs removes some jobs that expired before now.
func sweepErasureJobs(jobs, expiries *bbolt.Bucket, now record.Time) error {
	for position, id := range expired(expiries, now) {
		if err := jobs.Delete([]byte(id)); err != nil {
			return err
		}
		if err := expiries.Delete([]byte(position)); err != nil {
			return err
		}
	}
	return nil
}

// Unfinished implements erasurejob.Backlog. It reads all jobs.
func (s *ErasureJobs) Unfinished(context.Context) (keys []erasurejob.Key, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(erasureJobsBucket))
		return all.ForEachBucket(func(workspace []byte) error {
			return all.Bucket(workspace).ForEach(func(_, value []byte) error {
				j, err := erasurejob.Unmarshal(value)
				if err == nil && !j.Status.Final() {
					keys = append(keys, erasurejob.Key{Workspace: j.Workspace, ID: j.ID})
				}
				return err
			})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished erasure jobs: %w", err)
	}
	return keys, nil
}
