package job

import (
	"context"

	"sluice/pkg/record"
)

// Store keeps the jobs of one kind by workspace, a non-empty string without '#', and id. It is
// safe for concurrent use. Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Put stores j if the stored job with its id has the Revision j.Revision-1, or if there is
	// none and j.Revision is 1. It returns the job that is stored after the call, and whether
	// that is j.
	//
	// The error has kind NotFound if j.Revision is greater than 1 and there is no such job, and
	// kind TooMany if j is new and its workspace already has j.Quota unfinished jobs. That count
	// is exact, because it changes in the same atomic step as the job.
	Put(ctx context.Context, j Job) (stored Job, put bool, err error)

	// Get returns a job, including every change made before the call, or a *record.Error of kind
	// NotFound.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// List returns at most limit jobs without their Progress, newest first, starting after a
	// position or, if that is nil, at the first. A page may be shorter than limit even if More is
	// true.
	List(ctx context.Context, workspace string, after *record.Position, limit int) (record.Page[Job], error)
}

// Key identifies a job of a kind.
type Key struct{ Workspace, ID string }

// Backlog is a Store that lists what is left to do.
type Backlog interface {
	Store

	// Unfinished returns the unfinished jobs of all workspaces.
	Unfinished(ctx context.Context) ([]Key, error)
}
