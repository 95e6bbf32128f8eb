package late

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/client"
)

func TestSettleWaitsUntilNoRequestCanBeCarriedOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ after, takes time.Duration }{{0, 15 * time.Second}, {5 * time.Second, 10 * time.Second}, {15 * time.Second, 0}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var r Requests
			var out strings.Builder
			r.OnTry(client.Try{Unsure: true})
			time.Sleep(tt.after)
			began, late := time.Now(), r.Any()
			err := r.Settle(t.Context(), &out)
			if took := time.Since(began); err != nil || took != tt.takes || late != (took > 0) || strings.Contains(out.String(), "Waiting") != late || r.Any() {
				t.Errorf("after %s, it takes %s and says %q; error %v", tt.after, took, &out, err)
			}
			if err := r.Settle(t.Context(), &out); err != nil || time.Since(began) != tt.takes {
				t.Errorf("it waits again; error %v", err)
			}
		})
	}
}

func TestSettleForgetsNothing(t *testing.T) {
	t.Parallel()
	var r Requests
	r.OnTry(client.Try{})
	if r.Any() {
		t.Error("a request with a response may be carried out")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	r.GiveUp()
	r.Sleep = func(context.Context, time.Duration) { cancel(stopped) }
	if err := r.Settle(ctx, new(strings.Builder)); err != stopped || !r.Any() {
		t.Errorf("an interrupted wait: %v, %v", err, r.Any())
	}
	r.Sleep = func(context.Context, time.Duration) { r.GiveUp() }
	if err := r.Settle(t.Context(), new(strings.Builder)); err != nil || !r.Any() {
		t.Errorf("a request that was given up during the wait: %v, %v", err, r.Any())
	}
}
