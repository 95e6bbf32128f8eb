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

func TestTheLastKnownIDOfTheServiceIsUsedWhileItCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stored, failure := "", error(nil)
		g := newGuarded(t)
		g.opts.ServiceID = httpapi.NewServiceID(func(context.Context) (string, error) { return stored, failure })
		key := g.key(t, "w", access.Export)
		for i, step := range []struct {
			wait   time.Duration
			stored string
			err    error
			want   string
		}{
			{0, "", errors.New("down"), ""},
			{time.Minute, "", nil, ""}, // a service without an id
			{time.Minute, "a", nil, "a/w"},
			{time.Minute, "b", nil, "b/w"},
			{time.Hour, "c", errors.New("down"), "b/w"},
			{time.Hour, "", nil, "b/w"},
		} {
			time.Sleep(step.wait)
			stored, failure = step.stored, step.err
			resp := g.invoke(t, "get-entity", key, lambdatest.Event("GET", "/entity/none", "192.0.2.1", ""))
			if got := resp.Headers["Sluice-Source"]; got != step.want {
				t.Errorf("step %d: Sluice-Source %q, want %q", i, got, step.want)
			}
		}
	})
}
