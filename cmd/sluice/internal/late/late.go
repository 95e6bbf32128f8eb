// Package late makes a command wait while a service may still carry out a request that the command
// has given up, and that could undo what is sent next.
package late

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
)

// Most is how long a service may go on with a request after its client has stopped waiting: functions
// end after 10 seconds (template.yaml), and "sluice serve" gives authentication and the action 5 each
// (httpapi.storeTimeout).
const Most = 15 * time.Second

// Requests knows of requests that were given up. It is ready to use, and safe for concurrent use.
type Requests struct {
	// Sleep waits for so long, or until the context is done. If it is nil, Settle really waits.
	Sleep func(context.Context, time.Duration)

	givenUp atomic.Pointer[time.Time] // when the last one was; nil if none can be carried out any more
}

// OnTry is meant for client.Config.OnTry.
func (r *Requests) OnTry(t client.Try) {
	if t.Unsure {
		r.GiveUp()
	}
}

// GiveUp notes that requests are given up, such as those of a process that was killed.
func (r *Requests) GiveUp() {
	now := time.Now()
	r.givenUp.Store(&now)
}

// Any reports whether a request may still be carried out.
func (r *Requests) Any() bool {
	at := r.givenUp.Load()
	return at != nil && time.Since(*at) < Most
}

// Settle waits until no request can be carried out any more, and says so on out.
func (r *Requests) Settle(ctx context.Context, out io.Writer) error {
	at := r.givenUp.Load()
	if at == nil {
		return nil
	}
	if left := Most - time.Since(*at); left > 0 {
		progress.Println(out, fmt.Sprintf("The service may still carry out an earlier request. Waiting %.0f s.", math.Ceil(left.Seconds())))
		sleep := r.Sleep
		if sleep == nil {
			sleep = wait
		}
		if sleep(ctx, left); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	r.givenUp.CompareAndSwap(at, nil)
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
