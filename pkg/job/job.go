// Package job manages the life of background jobs of any kind: their status, which run owns a
// job, how often it has been tried, when a run hands over to the next, and how many unfinished
// jobs a workspace may have. Each kind of job adds the work of one run ([Work]).
//
// A run takes a job by writing its own name into it, and every write succeeds only if nobody
// has changed the job since it was read. So there is no lease and no clock to agree on: the
// last run that took a job owns it, and an earlier run that is still working finds out the
// next time it saves.
package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

type Kind struct {
	Name   string        // one lowercase word for messages, such as "report" for "report job"
	Keep   time.Duration // how long a job is kept after its end
	Quota  int           // how many unfinished jobs a workspace may have, unless the operator chooses another number; 0 for no limit
	Advice string        // added to the error of a job that failed because its runs made no progress; may be empty
}

// String returns the name that messages use, such as "report job".
func (k Kind) String() string { return k.Name + " job" }

// NotFoundError returns the error for a job that does not exist.
func (k Kind) NotFoundError(id string) error { return record.NotFoundError(k.String(), id) }

// Variable returns the name of an environment variable for jobs of this kind, such as
// "REPORT_JOBS_TABLE" for "TABLE".
func (k Kind) Variable(what string) string { return strings.ToUpper(k.Name) + "_JOBS_" + what }

// QuotaError means that a workspace already has as many unfinished jobs of a kind as it may
// have. Nothing was written.
type QuotaError struct {
	Kind  Kind
	Quota int
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the workspace has %d %ss that are queued or running, which is the maximum; wait until one has ended, or cancel one", e.Quota, e.Kind)
}

// Code is the error's code in the API, such as "too_many_report_jobs".
func (e *QuotaError) Code() string { return "too_many_" + e.Kind.Name + "_jobs" }

// An ended job keeps its status unless [Request] replaces the job.
type Status = api.JobStatus

const (
	Queued    = api.JobQueued
	Running   = api.JobRunning
	Succeeded = api.JobSucceeded
	Failed    = api.JobFailed
	Cancelled = api.JobCancelled
)

// Job is a job as stores keep it. Each kind of job defines the JSON of Details and Checkpoint.
type Job struct {
	Workspace  string       `json:"workspace"`
	ID         string       `json:"id"`
	Status     Status       `json:"status"`
	CreatedAt  record.Time  `json:"created_at"`
	StartedAt  *record.Time `json:"started_at,omitzero"`
	FinishedAt *record.Time `json:"finished_at,omitzero"`
	ExpiresAt  *record.Time `json:"expires_at,omitzero"` // when the store may remove the job; nil until it has ended
	Until      record.Time  `json:"until"`               // the job covers records created at this time or earlier
	Quota      int          `json:"quota,omitzero"`      // how many unfinished jobs the workspace may have, including this one; 0 for no limit
	Revision   int64        `json:"revision"`            // number of the latest change, counted from 1
	Run        string       `json:"run,omitzero"`        // name of the run that owns the job; "" if none does
	Tries      int          `json:"tries,omitzero"`      // how many runs have taken the job since a run last made progress; a run that ends because the program stops does not count
	Error      *string      `json:"error,omitzero"`      // tells the job's owner why the job failed
	Unclean    bool         `json:"unclean,omitzero"`    // whether a run must still clean up after the job, which has failed or was cancelled

	Details    json.RawMessage `json:"details,omitzero"`    // what lists show
	Checkpoint json.RawMessage `json:"checkpoint,omitzero"` // where the next run continues; nil in lists and after the job has ended
}

// MaxCheckpoint is the largest size of a Checkpoint, in bytes, that every store can keep. A DynamoDB
// item is limited to 400 KB.
const MaxCheckpoint = 300_000

// Position is j's position in lists, which are sorted from newest to oldest.
func (j Job) Position() record.Position {
	return record.Position{At: j.CreatedAt, ID: j.ID}
}

// Decode decodes what [Run.Save] encoded. It skips parts that j lacks and arguments that are nil.
func (j Job) Decode(details, checkpoint any) error {
	for _, part := range []struct {
		text json.RawMessage
		into any
	}{{j.Details, details}, {j.Checkpoint, checkpoint}} {
		if len(part.text) == 0 || part.into == nil {
			continue
		}
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return fmt.Errorf("decode job %s: %w", j.ID, err)
		}
	}
	return nil
}

// Lane is the queue in which a job waits for a run. New jobs have their own lane, so that they
// do not wait behind long jobs.
type Lane string

const (
	Fast Lane = "fast" // the first run of a new job, and the cleanup after a cancelled job
	Slow Lane = "slow" // all other runs
)

// Lane returns "" if j is not waiting for a run.
func (j Job) Lane() Lane {
	switch {
	case j.Status == Cancelled && j.Unclean, j.Status == Queued && j.StartedAt == nil:
		return Fast
	case j.Status == Queued:
		return Slow
	}
	return ""
}
