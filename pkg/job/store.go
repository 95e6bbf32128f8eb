package job

import (
	"context"

	"sluice/pkg/record"
)

// Store keeps the jobs of one kind by workspace and id. A workspace is a non-empty string
// without '#'. A Store is safe for concurrent use. Every method may fail with a *record.Error
// with code Unavailable.
type Store interface {
	// Put stores j if the stored job with its id has the revision j.Revision-1, or if there is no
	// such job and j.Revision is 1. It returns the job that is stored after the call, and whether
	// that job is j.
	//
	// The error has code NotFound if j.Revision is greater than 1 and there is no such job. It is a
	// *QuotaError if j is new and its workspace already has j.Quota unfinished jobs. That count is
	// exact, because it changes in the same atomic step as the job.
	Put(ctx context.Context, j Job) (stored Job, put bool, err error)

	// Get returns a job with every change made before the call, or a *record.Error of kind
	// NotFound.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// List returns at most limit jobs, newest first, without their Checkpoint. cursor is the Next of
	// the previous page, or "". A page may have fewer jobs even if more follow. The error may be
	// record.ErrCursor.
	List(ctx context.Context, workspace string, cursor record.Cursor, limit int) (record.Page[Job], error)
}

// Key identifies a job among the jobs of one kind.
type Key struct{ Workspace, ID string }

// Backlog is a Store that also lists the jobs that need a run.
type Backlog interface {
	Store

	// Unfinished returns the keys of the jobs of all workspaces that have not ended, or that are
	// Unclean.
	Unfinished(ctx context.Context) ([]Key, error)
}
