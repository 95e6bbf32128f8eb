package record

import "time"

// SyncLag and its components. docs/incremental-sync.md explains them.
const (
	// MaxClockSkew is the maximum difference between the clock of an instance and
	// UTC, in either direction.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout is the maximum time from reading the clock for a write's stamp until
	// the write is sent to the database, for the first time or again.
	WriteTimeout = 5 * time.Second

	// MaxTransit is the maximum time from sending a write until the database has applied
	// it. The client may have given up by then.
	MaxTransit = 2 * time.Second

	// MaxIndexDelay is the maximum time from applying a write until every read of an
	// index returns the written record.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is the age at which every write is in the index, even if the clock that
	// set its stamp differs from the clock of the reader.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxTransit + MaxIndexDelay
)

// SyncedUntil returns the time until which a synchronization is complete if it starts
// now. After now, no new change can appear whose time is in the interval [since, result).
// The result is never before the parameter since. A client can therefore use the result as
// the start of its next synchronization, even on an instance whose clock is behind.
func SyncedUntil(since Time, now time.Time) Time {
	if until := TimeOf(now.Add(-SyncLag)); since.Compare(until) < 0 {
		return until
	}
	return since
}

// Next returns the stamp of the next change of a record whose latest change has the stamp t:
// now, or a millisecond after t if that is later. A t further ahead of now than two clocks
// may differ is the fault of a clock. Then Next returns now, because walks would not see the
// record before t.
func (t Time) Next(now time.Time) Time {
	n := TimeOf(now)
	if ahead := t.Time().Sub(n.Time()); ahead < 0 || ahead > 2*MaxClockSkew {
		return n
	}
	return Time{t.unixMilli + 1}
}

// Filtered is the reason of a change that the filter of a walk does not select. The walk returns
// it as gone, because an earlier state of the record may be in a copy.
const Filtered = "filter"

// SyncQuery requests a page of a workspace's records in order of their latest change, which
// for an event is its creation, and then of id.
type SyncQuery struct {
	Since      Time      // only changes at this time or later
	Until      *Time     // only changes before this time; nil for no bound
	Descending bool      // whether the latest change comes first; by default, the oldest comes first
	After      *Position // position of the last record on the previous page; nil for the first page
	Limit      int       // maximum number of records, at least 1
}

// Bounds returns the bounds of the positions that q selects, like the function Bounds.
func (q SyncQuery) Bounds() (low, high string) {
	return Bounds(&q.Since, q.Until, q.After, !q.Descending)
}
