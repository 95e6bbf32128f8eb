package dashboard

import (
	"testing"

	"sluice/internal/test/browsertest"
)

// The clock of the service is an hour ahead, and the limit is reset in 10 s.
func TestThePollerWaitsForAResetByTheClockOfTheService(t *testing.T) {
	tab := browsertest.Start(t).Tab(t, browsertest.Desktop)
	tab.Open("about:blank")
	wait := browsertest.Eval[float64](tab, `new Promise((resolve) => {
		const setTimeout = (_, wait) => resolve(wait);
		`+string(read("api.js"))+string(read("poll.js"))+`
		clockOffset = 3_600_000;
		const task = async () => ({ remaining: 0, reset: Date.now() + clockOffset + 10_000 });
		new Poller(task, () => 1000, () => {}).start();
	})`)
	if wait < 9_000 || wait > 11_000 {
		t.Errorf("the poller waits %.0f ms, want 10 s", wait)
	}
}
