package bolt

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Erasures is an erasurejob.Requester that is safe for concurrent use. It stores the job and the
// tombstone in one transaction.
type Erasures struct {
	entities *Entities
	jobs     *Jobs
}

var _ erasurejob.Requester = (*Erasures)(nil)

// Request implements erasurejob.Requester. It leaves a newest stamp that is later than the job's
// Until, so whatever is stored afterwards has a later stamp.
func (s *Erasures) Request(ctx context.Context, workspace, id string) (stored job.Job, err error) {
	err = s.entities.table.update(ctx, "erase entity", workspace, func(changes records[entity.Change]) error {
		tx := changes.tx
		clock := s.entities.clock.Time()
		now, err := storeTime(tx, clock)
		if err != nil {
			return err
		}
		jobs, err := s.jobs.table.in(tx, workspace)
		if err != nil {
			return err
		}
		was, _, err := jobs.get(id)
		if err != nil {
			return err
		}
		stored = job.Renew(was, job.Job{Workspace: workspace, ID: id}, now)
		if _, _, err = s.jobs.put(jobs, stored); err != nil {
			return err
		}
		latest, exists, err := changes.get(id)
		if err != nil {
			return err
		}
		next, ok, err := entity.Erasure(id, stored.Until, time.Time{}).Next(latest, latest.SyncPosition().At.Next(now.Time()))
		if err != nil || !ok {
			return err
		}
		passed := record.TimeOf(stored.Until.Time().Add(time.Millisecond))
		return errors.Join(changes.put(next, latest, exists), changes.sweep(record.TimeOf(clock)), noteStamp(tx, next.SyncPosition().At), noteStamp(tx, passed))
	})
	return stored, err
}
