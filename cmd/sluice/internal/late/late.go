// Package late keeps a command from sending something else while a service may still carry out a
// request that was given up, and that would undo it.
package late

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/client"
)

// Most is how long a service may go on with a request after its client has stopped waiting.
const Most = client.DefaultTryTimeout

// Requests knows of requests that were given up. It is ready to use, and safe for concurrent use.
type Requests struct {
	// Sleep waits for so long, or until the context is done. If it is nil, Requests really waits.
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
func (r *Requests) Any() bool { return r.givenUp.Load() != nil }

// Settle waits until no request can be carried out any more, and says so on out.
func (r *Requests) Settle(ctx context.Context, out io.Writer) error {
	at := r.givenUp.Load()
	if at == nil {
		return nil
	}
	left := time.Until(at.Add(Most))
	progress.Println(out, fmt.Sprintf("A request got no response, and may still be carried out. Waiting %.0f s for it.", left.Seconds()))
	if r.Sleep != nil {
		r.Sleep(ctx, left)
	} else {
		sleep(ctx, left)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.givenUp.CompareAndSwap(at, nil)
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
