package ratelimit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Period is the time after which a counter starts again at 0.
type Period int

const (
	Second Period = iota // a Window
	Day                  // a UTC day
	Month                // a calendar month in UTC
)

// String returns "second", "day" or "month".
func (p Period) String() string { return [...]string{"second", "day", "month"}[p] }

// Start returns the first window of the period that contains w.
func (p Period) Start(w Window) Window {
	t := time.Unix(int64(w), 0).UTC()
	switch p {
	case Day:
		return WindowAt(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC))
	case Month:
		return WindowAt(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC))
	default:
		return w
	}
}

// End returns the first window after the period that contains w.
func (p Period) End(w Window) Window {
	t := time.Unix(int64(p.Start(w)), 0).UTC()
	switch p {
	case Day:
		return WindowAt(t.AddDate(0, 0, 1))
	case Month:
		return WindowAt(t.AddDate(0, 1, 0))
	default:
		return w + 1
	}
}

// KeptMonths is how many months a Store keeps what a key has used in them, the current one included.
const KeptMonths = 13

// seconds returns the time from the start of w to the end of the period.
func (p Period) seconds(w Window) int { return int(p.End(w) - w) }

// Sum names a counter of a key in a day or a month.
type Sum struct {
	Identity string
	Counter  string
	Period   Period
	Start    Window // the first window of the period
}

// String returns a text that ParseSum reads, such as key:7m3kq2xw9abc#records#2#1764547200.
func (s Sum) String() string {
	return fmt.Sprintf("%s#%s#%d#%d", s.Identity, s.Counter, s.Period, s.Start)
}

// ParseSum is the inverse of String.
func ParseSum(text string) (s Sum, err error) {
	parts := strings.Split(text, "#")
	if len(parts) != 4 {
		return Sum{}, fmt.Errorf("%q does not name a sum", text)
	}
	p, periodErr := strconv.Atoi(parts[2])
	start, err := strconv.ParseInt(parts[3], 10, 64)
	if s = (Sum{parts[0], parts[1], Period(p), Window(start)}); err != nil || periodErr != nil || s.String() != text {
		return Sum{}, fmt.Errorf("%q does not name a sum", text)
	}
	return s, nil
}

// SumStore keeps the sums of a Store that has its counters in memory. Implementations must be safe for
// concurrent use.
type SumStore interface {
	// Sums returns all sums.
	Sums(ctx context.Context) (map[Sum]int64, error)

	// SaveSums sets sums; one of 0 is removed. After it returns nil, no crash undoes it.
	SaveSums(ctx context.Context, sums map[Sum]int64) error
}
