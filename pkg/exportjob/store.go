package exportjob

import (
	"context"
	"errors"
)

// Query asks for a page of a workspace's jobs, the newest first.
type Query struct {
	Before *Position // exclusive; nil starts at the newest
	Limit  int       // most jobs to return, at least 1
}

// Page is a part of a list.
type Page struct {
	Jobs []Job
	More bool // there are jobs older than the last of these
}

// Store keeps jobs by workspace and id, and counts the unfinished ones of each
// workspace: those whose status is not final. The count is exact: it changes in the
// same atomic step as the job. Implementations are safe for concurrent use. A
// workspace is a non-empty string without '#'.
//
// Every method may fail with a *record.Error of kind Unavailable.
type Store interface {
	// Create stores j unless its workspace has a job with its id. It returns
	// the job that is stored afterwards and whether that is j; or an error of
	// kind TooMany, if j would be new and its workspace has quota unfinished
	// jobs already.
	Create(ctx context.Context, j Job, quota int) (stored Job, created bool, err error)

	// Get returns a job, or a *record.Error of kind NotFound. It sees every
	// change that was made before the call.
	Get(ctx context.Context, workspace, id string) (Job, error)

	// List returns the jobs that q asks for, without their Progress. The page may
	// be shorter than q.Limit while More is true.
	List(ctx context.Context, workspace string, q Query) (Page, error)

	// Replace stores j over the job of its id whose Revision is one less. It
	// returns the job that is stored afterwards and whether that is j; or a
	// *record.Error of kind NotFound if no job has that id.
	Replace(ctx context.Context, j Job) (stored Job, replaced bool, err error)
}

// Key names a job.
type Key struct{ Workspace, ID string }

// Backlog is a store that lists unfinished jobs.
type Backlog interface {
	// Unfinished returns the unfinished jobs of all workspaces.
	Unfinished(ctx context.Context) ([]Key, error)
}

// Files is where files are written, in parts. Implementations are safe for
// concurrent use. j.FileKey names a file; j.Progress.Upload an upload of it.
//
// Put and Complete fail with ErrUpload when the upload is gone or holds other
// parts than the job remembers: then the file must be written again.
type Files interface {
	// Start begins an upload of the job's file and returns its name.
	Start(ctx context.Context, j Job) (upload string, err error)

	// Put stores part number n, from 1, of the job's upload, in place of any
	// other of that number, and returns what identifies its content.
	Put(ctx context.Context, j Job, n int, part []byte) (etag string, err error)

	// Complete makes the job's parts the file, all at once. It may be repeated.
	Complete(ctx context.Context, j Job) error

	// Abort removes the job's upload, if it has one, and its parts. It may be
	// repeated.
	Abort(ctx context.Context, j Job) error

	// Delete removes the job's file if it exists. It may be repeated.
	Delete(ctx context.Context, j Job) error
}

// ErrUpload means that an upload is not what the job remembers of it.
var ErrUpload = errors.New("the upload is gone or has other parts")

// Links creates links to files.
type Links interface {
	// Link returns a URL from which anybody can download the file of a succeeded
	// job for a while. One that begins with '/' is a path of this server.
	Link(ctx context.Context, j Job) (string, error)
}
