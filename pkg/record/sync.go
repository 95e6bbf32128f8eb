package record

import "time"

// SyncLag and its parts, which docs/incremental-sync.md explains.
const (
	// MaxClockSkew is how far an instance's clock differs from UTC, in either direction.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout is the time from reading the clock for a write's stamp to sending the write to
	// the database, even if that is a repetition.
	WriteTimeout = 5 * time.Second

	// MaxTransit is the time from sending a write until the database has applied it, perhaps
	// after the client gave up.
	MaxTransit = 2 * time.Second

	// MaxIndexDelay is the time from applying a write until every read of an index returns it.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is the age at which every write is in the index, even if the writer's clock differs
	// from the reader's.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxTransit + MaxIndexDelay
)

// SyncedUntil returns until when a synchronization that starts now is complete: no change can
// still appear in [since, result). It is never before since, so a client can start its next
// synchronization there, even at an instance whose clock is behind.
func SyncedUntil(since Time, now time.Time) Time {
	if until := TimeOf(now.Add(-SyncLag)); since.Compare(until) < 0 {
		return until
	}
	return since
}

// Next returns the stamp of the change after the one with stamp t: now, or a millisecond after
// t if that is later. If t is further ahead of now than two clocks may differ, a clock was
// wrong. Then Next returns now, because walks would not see the record before t.
func (t Time) Next(now time.Time) Time {
	n := TimeOf(now)
	if ahead := t.Time().Sub(n.Time()); ahead < 0 || ahead > 2*MaxClockSkew {
		return n
	}
	return Time{t.unixMilli + 1}
}

// Filtered is the reason of a change that a walk's filter does not select. It is returned as
// gone, because a copy may have an earlier state of the record.
const Filtered = "filter"

// SyncQuery requests a page of records in order of their latest change, which for an event is
// its creation, and then of id.
type SyncQuery struct {
	Since      Time      // only changes from this time on
	Until      *Time     // only changes before; nil for no bound
	Descending bool      // latest change first; by default, oldest first
	After      *Position // last record of the page before; nil for the first
	Limit      int       // at least 1
}

// Bounds is [Bounds] of the positions that q selects.
func (q SyncQuery) Bounds() (low, high string) {
	return Bounds(&q.Since, q.Until, q.After, !q.Descending)
}
