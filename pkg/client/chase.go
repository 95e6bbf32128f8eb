package client

import "time"

// MaxChase is how long a walk is read after it has passed the time at which it began.
const MaxChase = 5 * time.Minute

// Chase notices a walk that has no end, because changes come faster than it reads. Its zero value
// is ready to use.
type Chase struct {
	Now func() time.Time // time.Now by default

	began  time.Time // when the service sent the first page
	passed time.Time // when the walk had passed began; zero until then
}

// Over reports whether the walk should end with a page although others follow. The arguments are
// the page's SyncedUntil, Last and Sent. The copy is then complete up to SyncedUntil.
func (c *Chase) Over(syncedUntil, last Time, sent time.Time) bool {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.began.IsZero() {
		c.began = sent
	}
	// After a clock was set back, the service may give all changes one time for a while, so they can
	// be later than began and yet settled. Such a walk does end.
	if c.passed.IsZero() && last.Time().After(c.began) && last.Compare(syncedUntil) > 0 {
		c.passed = c.Now()
	}
	return !c.passed.IsZero() && c.Now().Sub(c.passed) >= MaxChase
}
