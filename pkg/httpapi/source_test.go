package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/httpapi"
)

// Error responses also have the header Sluice-Source if the caller is known.
func TestResponsesSayWhichRecordsTheyAreAbout(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.opts.ServiceID = httpapi.NewServiceID(func(context.Context) (string, error) { return "service", nil })
	exports, imports := g.key(t, "w", access.Export), g.key(t, "v", access.Import)
	for _, tt := range []struct {
		key    string
		off    bool // whether API keys are off
		status int
		want   string
	}{
		{exports, false, 404, "service/w"},
		{imports, false, 403, "service/v"},
		{wrong(exports), false, 401, ""},
		{"", false, 401, ""},
		{"", true, 404, "service/default"},
	} {
		g.opts.AccessOff = tt.off
		resp := g.invoke(t, "get-entity", tt.key, lambdatest.Event("GET", "/entity/none", "192.0.2.1", ""))
		if got := resp.Headers["Sluice-Source"]; resp.StatusCode != tt.status || got != tt.want {
			t.Errorf("keys off %v: status %d, Sluice-Source %q; want %d, %q", tt.off, resp.StatusCode, got, tt.status, tt.want)
		}
	}
}

// While the id cannot be read, the last known id is used.
func TestTheIDOfTheServiceIsReadOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads, stored, failure := 0, "", errors.New("down")
		id := httpapi.NewServiceID(func(ctx context.Context) (string, error) {
			reads++
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second {
				t.Error("a read has no deadline")
			}
			return stored, failure
		})
		for i, step := range []struct {
			wait   time.Duration
			stored string
			fails  bool
			reads  int
			want   string
			err    bool
		}{
			{0, "", true, 1, "", true},
			{5*time.Second - 1, "a", false, 1, "", false},
			{1, "a", false, 2, "a", false},
			{time.Minute - 1, "b", false, 2, "a", false},
			{1, "b", false, 3, "b", false},
			{time.Minute, "c", true, 4, "b", true},
			{5 * time.Second, "c", false, 5, "c", false},
			{time.Minute, "", false, 6, "c", true},
		} {
			time.Sleep(step.wait)
			if stored, failure = step.stored, nil; step.fails {
				failure = errors.New("down")
			}
			if got, err := id.Get(t.Context()); got != step.want || (err != nil) != step.err || reads != step.reads {
				t.Errorf("step %d: %q, %v after %d reads; want %q after %d", i, got, err, reads, step.want, step.reads)
			}
		}
	})
}
