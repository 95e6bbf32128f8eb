package exportjob

import (
	"context"
	"errors"

	"sluice/pkg/record"
)

// Query selects a page of a workspace's jobs, newest first.
type Query struct {
	Before *record.Position // position of the last job on the previous page; nil for the first page
	Limit  int              // maximum number of jobs to return, at least 1
}

// Store stores jobs by workspace and id. It counts the unfinished jobs of each workspace.
// The count is exact, because it changes in the same atomic step as the job.
// Implementations are safe for concurrent use. A workspace is a non-empty string without
// '#'.
//
// Every method may return a *record.Error of kind Unavailable.
type Store interface {
	// Create stores j if its workspace has no job with the same id. It returns the job
	// that is stored after the call, and reports whether that job is j. If no job has
	// this id and the workspace already has as many unfinished jobs as quota allows,
	// Create returns an error of kind TooMany.
	Create(ctx context.Context, j Job, quota int) (stored Job, created bool, err error)

	// Get returns a job. If it does not exist, Get returns a *record.Error of kind
	// NotFound. The read is strongly consistent.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// List returns jobs without their Progress. A page may be shorter than q.Limit
	// even if More is true.
	List(ctx context.Context, workspace string, q Query) (record.Page[Job], error)

	// Replace stores j if the stored job with the same id has the Revision j.Revision-1.
	// It returns the job that is stored after the call, and reports whether that job is
	// j. If no job has this id, Replace returns a *record.Error of kind NotFound.
	Replace(ctx context.Context, j Job) (stored Job, replaced bool, err error)
}

// Key identifies a job.
type Key struct{ Workspace, ID string }

// Backlog lists the unfinished jobs of a store.
type Backlog interface {
	// Unfinished returns the unfinished jobs of all workspaces.
	Unfinished(ctx context.Context) ([]Key, error)
}

// Files stores export files, which are uploaded in parts. j.FileKey is the name of a
// file, and j.Progress.Upload identifies an upload of it. Implementations are safe
// for concurrent use.
//
// Put and Complete return ErrUpload if the upload no longer exists or its parts differ
// from j.Progress.Parts. The file must then be uploaded again from the beginning.
type Files interface {
	// Start starts an upload of the job's file and returns the id of the upload.
	Start(ctx context.Context, j Job) (upload string, err error)

	// Put uploads part n, counted from 1, and replaces an earlier part n. It returns
	// an ETag, which identifies the content.
	Put(ctx context.Context, j Job, n int, part []byte) (etag string, err error)

	// Complete creates the file from the job's parts, atomically. The call may be
	// repeated.
	Complete(ctx context.Context, j Job) error

	// Abort removes the job's upload and its parts, if the job has an upload. The call
	// may be repeated.
	Abort(ctx context.Context, j Job) error

	// Delete removes the job's file if it exists. The call may be repeated.
	Delete(ctx context.Context, j Job) error
}

// ErrUpload means that an upload no longer exists or differs from the job's Progress.
var ErrUpload = errors.New("the upload does not exist or its parts differ from those of the job")

// Links creates download links.
type Links interface {
	// Link returns a URL from which anybody can download the file of a succeeded job
	// for a limited time. A URL that begins with '/' is a path of this server.
	Link(ctx context.Context, j Job) (string, error)
}
