package record

import (
	"cmp"
	"time"
)

// SyncLag and its components. docs/incremental-sync.md explains them.
const (
	// MaxClockSkew is the maximum difference between the clock of an instance and
	// UTC, in either direction.
	MaxClockSkew = 2 * time.Second

	// WriteTimeout is the maximum time between reading the clock for a write's timestamp
	// and the end of that write.
	WriteTimeout = 5 * time.Second

	// MaxIndexDelay is the maximum time from the end of a write until every read of an
	// index returns the written record.
	MaxIndexDelay = 2 * time.Second

	// SyncLag is the age at which every write is in the index, even if the clock that
	// set its timestamp differs from the clock of the reader.
	SyncLag = 2*MaxClockSkew + WriteTimeout + MaxIndexDelay
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

// Next returns the timestamp of a change of a record. t is the timestamp of the previous
// change of the record. The result is the later of two times: the parameter now, and one
// millisecond after t.
func (t Time) Next(now time.Time) Time {
	return Time{max(TimeOf(now).unixMilli, t.unixMilli+1)}
}

// SyncPosition is the position of a record in the order of synchronization: by the
// time of the latest change, then by the bytes of the id.
type SyncPosition struct {
	At Time
	ID string
}

// Compare returns -1 if p is before q in ascending order, 0 if they are equal, and +1
// if p is after q.
func (p SyncPosition) Compare(q SyncPosition) int {
	return cmp.Or(p.At.Compare(q.At), cmp.Compare(p.ID, q.ID))
}

// String returns the time with a fixed width, '#' and the id. These strings sort in the
// order of positions. Stores use them as sort keys.
func (p SyncPosition) String() string { return p.At.String() + "#" + p.ID }

// SyncQuery requests a page of a workspace's records in order of SyncPosition.
type SyncQuery struct {
	Since      Time          // only changes at this time or later
	Until      *Time         // only changes before this time; nil for no bound
	Descending bool          // whether the latest change comes first; by default, the oldest comes first
	After      *SyncPosition // position of the last record on the previous page; nil for the first page
	Limit      int           // maximum number of records, at least 1
}

// Bounds returns the bounds of the positions that q selects, as the package-level function
// Bounds defines them.
func (q SyncQuery) Bounds() (low, high string) {
	after := ""
	if q.After != nil {
		after = q.After.String()
	}
	return Bounds(&q.Since, q.Until, after, !q.Descending)
}

// Bounds returns the bounds of a part of a list. A position is in the part if its text
// (SyncPosition.String) is between low and high. The part contains only positions with
// from <= time < to. The parameter after is the text of a position. The part contains only
// positions that follow it in the direction of the list. In the arguments and in the
// results, nil and "" mean no bound. No position equals a bound, so it does not matter
// whether the bounds are inclusive. If low is greater than high, no position is between
// them.
func Bounds(from, to *Time, after string, ascending bool) (low, high string) {
	if from != nil {
		low = from.String() // prefix of all positions at this time, so it sorts before them
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
	// Make a text that sorts just before this position: decrease the last character by
	// one and append \x7f, which is greater than all characters of ids. All earlier
	// positions are also before this text.
	last := len(after) - 1
	below := after[:last] + string(after[last]-1) + "\x7f"
	if high == "" || below < high {
		high = below
	}
	return low, high
}

// SyncPage is a page of a list in order of SyncPosition.
type SyncPage[R any] struct {
	Records []R
	More    bool         // whether records may follow the position Last
	Last    SyncPosition // position of the last record that was read, after which the next page starts
}

// NewSyncPage returns a page with the records for which the function show returns true. The
// parameter more says whether further records follow.
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
