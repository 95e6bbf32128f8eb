package record

import "time"

// SyncLag is the sum of the others; docs/incremental-sync.md explains them.
const (
	// MaxClockSkew is how far an instance's clock may be off UTC, in either direction.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout is the longest time from reading the clock for a write's stamp to sending the
	// write to the database, including retries.
	WriteTimeout = 5 * time.Second

	// MaxTransit is the longest time from sending a write until the database has applied it,
	// perhaps after the client gave up.
	MaxTransit = 2 * time.Second

	// MaxIndexDelay is the longest time from applying a write until every read of an index
	// returns it.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is the age at which every write is in the index, even if the clocks of writer and
	// reader differ.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxTransit + MaxIndexDelay
)

// SyncedUntil returns the time up to which a synchronization that starts now is complete: no
// change can still appear in [since, result). It is never before since, so a client can start
// its next synchronization there, even if it reaches an instance whose clock is behind.
func SyncedUntil(since Time, now time.Time) Time {
	if until := TimeOf(now.Add(-SyncLag)); since.Compare(until) < 0 {
		return until
	}
	return since
}

// Next returns the stamp of the change after the one with stamp t: now, or a millisecond after
// t if that is later. If t is further ahead of now than two clocks may differ, some clock was
// wrong; Next then returns now, because otherwise walks would not see the record until t.
func (t Time) Next(now time.Time) Time {
	n := TimeOf(now)
	if ahead := t.Time().Sub(n.Time()); ahead < 0 || ahead > 2*MaxClockSkew {
		return n
	}
	return Time{t.unixMilli + 1}
}

// Filtered is the reason of a change to a record that a walk's filter does not select. Walks
// return such a record as gone, because a copy may have an earlier state of it.
const Filtered = "filter"

// SyncQuery requests a page of records in order of their latest change (for an event, its
// creation), and then of id.
type SyncQuery struct {
	Since      Time      // only changes from this time on
	Until      *Time     // only changes before this time; nil for no bound
	Descending bool      // latest change first; by default, oldest first
	After      *Position // last record of the previous page; nil for the first page
	Limit      int       // at least 1
}

// Bounds returns the [Bounds] of the positions that q selects.
func (q SyncQuery) Bounds() (low, high string) {
	return Bounds(&q.Since, q.Until, q.After, !q.Descending)
}
