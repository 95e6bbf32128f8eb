package record

import "time"

// Bounds on clock errors and delays, and the resulting lag. docs/incremental-sync.md explains them.
const (
	// MaxClockSkew is how far an instance's clock may differ from UTC, in either direction.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout is how much time may pass after a write has read the clock for its stamp. Later
	// than that, no attempt is made to send it to the database.
	WriteTimeout = 5 * time.Second

	// MaxTransit is the longest time from sending a write until the database has applied it. By
	// then, the client may have given up.
	MaxTransit = 2 * time.Second

	// MaxIndexDelay is the longest time from applying a write until every read of an index
	// returns it.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is the age at which every write is certain to be in the index, even if the clocks
	// of writer and reader differ.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxTransit + MaxIndexDelay
)

// Next returns the stamp for a change that follows one with stamp t: the later of t and now. So
// stamps never run ahead of the clocks, and changes may have equal stamps. If t is ahead of now by
// more than 2*MaxClockSkew, a clock was wrong. Next then returns now.
func (t Time) Next(now time.Time) Time {
	n := TimeOf(now)
	if ahead := t.Time().Sub(n.Time()); ahead < 0 || ahead > 2*MaxClockSkew {
		return n
	}
	return t
}

// Filtered is the Reason of a change to a record that the walk's filter does not select. The
// walk returns the record as gone, because a client may hold a copy of an earlier version.
const Filtered = "filter"

// SyncQuery requests a page of a walk: records ordered by their latest change and then by id. The
// latest change of an event is its creation. A walk reads to the end of the list, whatever is
// added to it meanwhile.
type SyncQuery struct {
	Since      Time   // only changes from this time on
	Descending bool   // latest change first; otherwise oldest first
	Cursor     Cursor // Next of the previous page, the text of a Position; "" for the first page
	Limit      int    // at least 1
}

// Bounds returns the [Bounds] of the positions that q requests.
func (q SyncQuery) Bounds() (low, high string, err error) {
	return Bounds(&q.Since, nil, q.Cursor, !q.Descending)
}

// SyncedUntil returns a time up to which an ascending walk is complete once it has read the page
// that q requested: every earlier change is on this page or an earlier one. next and settled are
// the page's Next and Settled. fixed says that the walk has now read further than what is settled,
// so the same time holds for its later pages.
func (q SyncQuery) SyncedUntil(next Cursor, settled Time) (until Time, fixed bool) {
	until = q.Since
	// An earlier page was synced until its last position, perhaps by a clock that is ahead of the
	// one that made this page.
	if before, err := ParsePosition(string(q.Cursor)); err == nil && until.Compare(before.At) < 0 {
		until = before.At
	}
	if last, err := ParsePosition(string(next)); err == nil && last.At.Compare(settled) < 0 {
		return later(until, last.At), false
	}
	return later(until, settled), true
}

func later(t, u Time) Time {
	if t.Compare(u) < 0 {
		return u
	}
	return t
}
