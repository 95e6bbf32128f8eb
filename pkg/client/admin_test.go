package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/audit"
	"sluice/pkg/client"
)

func callAdminRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	made, err := c.CreateAPIKey(ctx, client.NewAPIKey{Scopes: []client.Scope{access.Export}, Workspace: "acme", ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil || made.Workspace != "acme" || made.ExpiresAt == nil {
		t.Fatalf("made %+v, %v", made, err)
	}
	secrettest.Keep(made.Key)
	if k, err := c.SetAPIKeyPlan(ctx, made.ID, ""); err != nil || k.ID != made.ID || k.Key != "" {
		t.Errorf("plan: %+v, %v", k, err)
	}
	if k, err := c.RevokeAPIKey(ctx, made.ID, true); err != nil || k.Status != access.Revoked || len(k.Made) != 0 {
		t.Errorf("revoked %+v, %v", k, err)
	}
	if _, err := c.RevokeAPIKey(ctx, "aaaaaaaaaaaa", false); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("no key: %v", err)
	}
	n := 0
	for k, err := range c.APIKeys(ctx, client.APIKeyQuery{Workspace: "acme", Limit: 1}) {
		if n++; err != nil || k.ID != made.ID || k.Key != "" {
			t.Errorf("listed %+v, %v", k, err)
		}
	}
	if n != 1 {
		t.Errorf("%d keys", n)
	}
}

func callLimitRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	l, err := c.SetLimit(ctx, client.Limit{Plan: "pro", Records: 1000})
	if err != nil || l.Records != 1000 || l.Action != "limit" || l.UpdatedAt.IsZero() {
		t.Fatalf("set %+v, %v", l, err)
	}
	l.Records = 2000
	if again, err := c.SetLimit(ctx, l); err != nil || again.Records != 2000 {
		t.Errorf("set again: %+v, %v", again, err)
	}
	if all, err := c.ListLimits(ctx); err != nil || len(all) != 1 || all[0].Plan != "pro" {
		t.Errorf("listed %+v, %v", all, err)
	}
	if err := c.RemoveLimit(ctx, l); err != nil {
		t.Error(err)
	}
	if err := c.RemoveLimit(ctx, l); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("removed again: %v", err)
	}
	x := client.NewEntityIndex{Type: "person", Attributes: []api.IndexAttribute{{Name: "email"}}}
	if declared, err := c.CreateEntityIndex(ctx, x); err != nil || declared.State != "writing" || declared.Attributes[0].ValueType != "text" {
		t.Errorf("declared %+v, %v", declared, err)
	}
	if removed, err := c.RemoveEntityIndex(ctx, x); err != nil || removed.State != "removing" {
		t.Errorf("removed %+v, %v", removed, err)
	}
	n := 0
	for r, err := range c.Audit(ctx, client.AuditQuery{Limit: 2}) {
		if n++; err != nil || r.Result != audit.Done || r.By != "anyone" {
			t.Errorf("audit %+v, %v", r, err)
		}
	}
	if n != 8 {
		t.Errorf("%d changes", n)
	}
}

// A repeat after a lost response would make a second key, and the first would be nobody's.
func TestAKeyIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status  int
		body    string
		tries   int64
		unknown bool
	}{
		{201, `{}`, 1, true},
		{500, `{"code":"internal_error"}`, 1, true},
		{503, `{"code":"store_unavailable"}`, 1, true},
		{503, `{"code":"rate_limiter_unavailable"}`, 2, false},
		{429, `{"code":"rate_limit_exceeded"}`, 2, false},
		{403, `{"code":"beyond_own_rights"}`, 1, false},
	} {
		var tries atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			tries.Add(1)
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body) //nolint:errcheck // the client notices
		}))
		defer server.Close()
		c, err := client.New(server.URL, client.Config{MaxTries: 2, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.CreateAPIKey(t.Context(), client.NewAPIKey{Scopes: []client.Scope{access.Export}})
		if got := errors.Is(err, client.ErrUnknownOutcome); err == nil || got != tt.unknown || tries.Load() != tt.tries {
			t.Errorf("%d %s: %d tries, error %v", tt.status, tt.body, tries.Load(), err)
		}
	}
}
