package bolt

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

const (
	exportJobsBucket = "export_jobs"
	progressOf       = "progress"
	unfinished       = "unfinished"
)

// ExportJobs is an exportjob.Store and exportjob.Backlog. It is safe for concurrent use.
//
// It stores export jobs in a bbolt file, for a local server. The jobs
// survive a restart of the process.
//
// The bucket export_jobs contains a bucket for each workspace. The bucket of a workspace
// contains the following buckets.
//
//   - by_id maps the id of each job to the job.
//   - The bucket progress maps the id of each job to its Progress. A job whose Progress is
//     zero has no entry.
//   - unfinished has the ids of the unfinished jobs as its keys.
//   - by_position maps the text of Job.Position to the id. Lists have the order of these
//     strings.
//
// The values in by_id and progress are the results of exportjob.Marshal.
type ExportJobs struct {
	db         *bbolt.DB
	workspaces *workspaces
}

// NewExportJobs returns a Store in db. Other stores may use db too. The caller closes db.
func NewExportJobs(db *bbolt.DB) (*ExportJobs, error) {
	if db == nil {
		return nil, errors.New("bolt: a database is required")
	}
	workspaces, err := openWorkspaces(db, exportJobsBucket)
	if err != nil {
		return nil, fmt.Errorf("bolt: %w", err)
	}
	return &ExportJobs{db: db, workspaces: workspaces}, nil
}

// Create implements exportjob.Store.
func (s *ExportJobs) Create(ctx context.Context, j exportjob.Job, quota int) (stored exportjob.Job, created bool, err error) {
	err = s.workspaces.update(ctx, "create export job", j.Workspace, func(b *bbolt.Bucket) (err error) {
		var exists bool
		if stored, exists, err = getExportJob(b, j.ID); err != nil || exists {
			created = false
			return err
		}
		n := 0
		for range scan(b.Bucket([]byte(unfinished)), "", "", true) {
			n++
		}
		if n >= quota {
			return exportjob.TooManyError(quota)
		}
		stored, created = j, true
		if err := setExportJob(b, byPosition, j.Position().String(), []byte(j.ID)); err != nil {
			return err
		}
		return putExportJob(b, j)
	})
	if err != nil {
		return exportjob.Job{}, false, err
	}
	return stored, created, nil
}

// getExportJob returns a job from the bucket of its workspace and reports whether it exists.
func getExportJob(b *bbolt.Bucket, id string) (j exportjob.Job, exists bool, err error) {
	jobs, progress := b.Bucket([]byte(byID)), b.Bucket([]byte(progressOf))
	if jobs == nil || jobs.Get([]byte(id)) == nil {
		return exportjob.Job{}, false, nil
	}
	var saved []byte
	if progress != nil {
		saved = progress.Get([]byte(id))
	}
	j, err = exportjob.Unmarshal(jobs.Get([]byte(id)), saved)
	return j, true, err
}

// putExportJob stores j in the bucket of its workspace.
func putExportJob(b *bbolt.Bucket, j exportjob.Job) error {
	job, progress, err := exportjob.Marshal(j)
	if err != nil {
		return err
	}
	var mark []byte
	if !j.Status.Final() {
		mark = []byte{1}
	}
	return errors.Join(setExportJob(b, byID, j.ID, job), setExportJob(b, progressOf, j.ID, progress), setExportJob(b, unfinished, j.ID, mark))
}

// setExportJob stores a key with its value in the bucket of the given name inside b. If value is nil,
// set deletes the key.
func setExportJob(b *bbolt.Bucket, bucket, key string, value []byte) error {
	in, err := b.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	if value == nil {
		return in.Delete([]byte(key))
	}
	return in.Put([]byte(key), value)
}

// Get implements exportjob.Store.
func (s *ExportJobs) Get(ctx context.Context, workspace, id string) (j exportjob.Job, err error) {
	exists := false
	err = s.workspaces.view(ctx, "get export job", workspace, func(b *bbolt.Bucket) (err error) {
		j, exists, err = getExportJob(b, id)
		return err
	})
	if err == nil && !exists {
		err = exportjob.NotFoundError(id)
	}
	return j, err
}

// List implements exportjob.Store.
func (s *ExportJobs) List(ctx context.Context, workspace string, q exportjob.Query) (page record.Page[exportjob.Job], err error) {
	before := ""
	if q.Before != nil {
		before = q.Before.String()
	}
	err = s.workspaces.view(ctx, "list export jobs", workspace, func(b *bbolt.Bucket) error {
		jobs := b.Bucket([]byte(byID))
		for position, id := range scan(b.Bucket([]byte(byPosition)), "", before, false) {
			if string(position) == before {
				continue
			}
			if page.More = len(page.Records) == q.Limit; page.More {
				return nil
			}
			j, err := exportjob.Unmarshal(jobs.Get(id), nil)
			if err != nil {
				return err
			}
			page.Records = append(page.Records, j)
		}
		return nil
	})
	return page, err
}

// Replace implements exportjob.Store.
func (s *ExportJobs) Replace(ctx context.Context, j exportjob.Job) (stored exportjob.Job, replaced bool, err error) {
	err = s.workspaces.update(ctx, "replace export job", j.Workspace, func(b *bbolt.Bucket) (err error) {
		var exists bool
		if stored, exists, err = getExportJob(b, j.ID); err == nil && !exists {
			err = exportjob.NotFoundError(j.ID)
		}
		if replaced = err == nil && stored.Revision == j.Revision-1; !replaced {
			return err
		}
		stored = j
		return putExportJob(b, j)
	})
	return stored, replaced, err
}

// Unfinished implements exportjob.Backlog.
func (s *ExportJobs) Unfinished(context.Context) (keys []exportjob.Key, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket([]byte(exportJobsBucket))
		return all.ForEachBucket(func(workspace []byte) error {
			for id := range scan(all.Bucket(workspace).Bucket([]byte(unfinished)), "", "", true) {
				keys = append(keys, exportjob.Key{Workspace: string(workspace), ID: string(id)})
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list unfinished export jobs: %w", err)
	}
	return keys, nil
}
