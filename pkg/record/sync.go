package record

import (
	"cmp"
	"time"
)

// The bounds from which SyncLag follows. docs/incremental-sync.md derives it.
const (
	// MaxClockSkew bounds how far the clock of an instance is from UTC, either way.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout bounds the time from the reading of the clock that stamps a write
	// to the end of the write.
	WriteTimeout = 5 * time.Second

	// MaxIndexDelay bounds the time from the end of a write to its appearance in
	// every read of an index.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is how far SyncedUntil trails the clock. A write with an earlier stamp
	// than that is in the index, whichever clocks stamped it and read this one.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxIndexDelay
)

// SyncedUntil returns the end of a walk that asks for changes since a time and begins
// now: no change before it can appear later. It never returns a time before since,
// so the end of one walk is a start of the next on an instance whose clock lags.
func SyncedUntil(since Time, now time.Time) Time {
	if until := TimeOf(now.Add(-SyncLag)); since.Compare(until) < 0 {
		return until
	}
	return since
}

// Next returns the time of a change at now to a record that last changed at t: now, or
// the millisecond after t if the clock is not yet there.
func (t Time) Next(now time.Time) Time {
	return Time{max(TimeOf(now).unixMilli, t.unixMilli+1)}
}

// SyncPosition is a record's place in the order in which records are synchronized: by
// the time of the latest change, then by the bytes of the id.
type SyncPosition struct {
	At Time
	ID string
}

// Compare returns -1, 0 or +1 if p is before, at or after q in ascending order.
func (p SyncPosition) Compare(q SyncPosition) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(p.ID, q.ID))
}

// String returns a text that sorts as positions do: the fixed-width time, '#', the
// id. Stores use it as a sort key.
func (p SyncPosition) String() string { return p.At.String() + "#" + p.ID }

// SyncQuery asks for a page of a workspace's records in order of SyncPosition.
type SyncQuery struct {
	Since      Time          // only changes at this time or later
	Until      *Time         // only changes before this time; nil for all
	Descending bool          // latest first; oldest first by default
	After      *SyncPosition // exclusive, in the direction of the list; nil starts at its beginning
	Limit      int           // most records to return, at least 1
}

// Bounds returns what the function Bounds returns for q.
func (q SyncQuery) Bounds() (low, high string) {
	after := ""
	if q.After != nil {
		after = q.After.String()
	}
	return Bounds(&q.Since, q.Until, after, !q.Descending)
}

// Bounds returns the lowest and the highest text of the positions from a time on,
// before another and beyond the position after in the direction of a list. "" and nil
// are no bound. A position is the text of a time, '#' and an id. None has the text
// of a bound, so it does not matter whether bounds are included. They may cross: then
// no position is between them.
func Bounds(from, to *Time, after string, ascending bool) (low, high string) {
	if from != nil {
		low = from.String() // shorter than a position of that time, and so below all of them
	}
	if to != nil {
		high = to.String()
	}
	switch {
	case after == "":
		return low, high
	case ascending:
		return max(low, after+"\x00"), high
	}
	// What is below after is also below the text with its last character lowered
	// and the highest character beyond those of ids behind it.
	last := len(after) - 1
	below := after[:last] + string(after[last]-1) + "\x7f"
	if high == "" || below < high {
		high = below
	}
	return low, high
}

// SyncPage is a part of a list in order of SyncPosition.
type SyncPage[R any] struct {
	Records []R
	More    bool         // there may be records after Last
	Last    SyncPosition // of the last record that was read; the next page starts after it
}

// NewSyncPage returns the page of those records that show reports true for. more
// reports whether further records follow.
func NewSyncPage[R interface{ SyncPosition() SyncPosition }](records []R, more bool, show func(R) bool) SyncPage[R] {
	page := SyncPage[R]{More: more}
	for _, r := range records {
		page.Last = r.SyncPosition()
		if show(r) {
			page.Records = append(page.Records, r)
		}
	}
	return page
}
