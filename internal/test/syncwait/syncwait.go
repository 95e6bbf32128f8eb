// Package syncwait waits until incremental sync returns what a test has written.
package syncwait

import (
	"testing"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/record"
)

// Await waits until incremental sync returns every write up to a time, which is about
// record.SyncLag after that time. The service must use the same clock as the test.
func Await(t testing.TB, c *client.Client, at time.Time) {
	t.Helper()
	written := record.TimeOf(at.Add(time.Second)) // stamps from record.Time.Next can be slightly ahead of the clock
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for {
		page, err := c.ListEntityChanges(t.Context(), client.EntityChangeQuery{UpdatedSince: written, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if page.SyncedUntil == nil {
			t.Fatal("a list of changes has no synced_until")
		}
		if page.SyncedUntil.Compare(written) > 0 {
			return
		}
		<-poll.C
	}
}
