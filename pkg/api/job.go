package api

import "sluice/pkg/record"

// JobStatus is the status of a job of any kind.
type JobStatus string

// The last three are final.
const (
	JobQueued    JobStatus = "queued"
	JobRunning   JobStatus = "running"
	JobSucceeded JobStatus = "succeeded"
	JobFailed    JobStatus = "failed"
	JobCancelled JobStatus = "cancelled"
)

// Final reports whether the job has ended.
func (s JobStatus) Final() bool { return s == JobSucceeded || s == JobFailed || s == JobCancelled }

// Erasing describes the erasure job in the response to a deletion of an entity and its events.
type Erasing struct {
	ID     string    `json:"id"`
	Status JobStatus `json:"status"`
}

// ErasureJob is an erasure job as the API shows it.
type ErasureJob struct {
	ID           string       `json:"id"` // the entity's id
	Status       JobStatus    `json:"status"`
	EventsErased int64        `json:"events_erased"` // lacks a page if the run was killed right after erasing it
	CreatedAt    record.Time  `json:"created_at"`
	StartedAt    *record.Time `json:"started_at"`
	FinishedAt   *record.Time `json:"finished_at"`
	Error        *string      `json:"error"` // tells users why events may remain
}
