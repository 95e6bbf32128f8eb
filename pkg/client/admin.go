package client

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sluice/pkg/access"
)

// The JSON of API keys. Package access describes their fields.
type (
	APIKey     = access.Shown
	Revocation = access.Revocation
	Scope      = access.Scope
)

// NewAPIKey says what a new key may do. Only Scopes is required. What the key in Config may give, the
// documentation of the service says; what goes beyond that is an [*Error] with the code
// "beyond_own_rights".
type NewAPIKey struct {
	Name      string         `json:"name,omitzero"`
	Workspace string         `json:"workspace,omitzero"` // by default that of the key in Config
	Scopes    []Scope        `json:"scopes"`
	Plan      string         `json:"plan,omitzero"`
	From      []netip.Prefix `json:"from,omitzero"`
	ExpiresAt time.Time      `json:"expires_at,omitzero"`
}

// APIKeyQuery selects API keys. Its zero value selects those of the caller's workspace or, with the
// scope operator, of all workspaces.
type APIKeyQuery struct {
	Workspace string
	Limit     int    // per page, 1 to 200; 0 for the service's default, 50
	Cursor    string // NextCursor of the previous page; empty for the first page
}

// ListAPIKeys returns one page of keys, without their secrets. Like all methods that manage keys, it
// needs a key with the scope admin, and a service whose operator has turned administration on.
func (c *Client) ListAPIKeys(ctx context.Context, q APIKeyQuery) (Page[APIKey], error) {
	return getPage[APIKey](ctx, c, route{"list-api-key", http.MethodGet, classGeneral}, "/api_key", values("workspace", q.Workspace, "cursor", q.Cursor), q.Limit)
}

// APIKeys iterates over the keys of all pages. It ends after the first error, which it yields with a
// zero key.
func (c *Client) APIKeys(ctx context.Context, q APIKeyQuery) iter.Seq2[APIKey, error] {
	return records(q.Cursor, func(cursor string) (Page[APIKey], error) {
		q.Cursor = cursor
		return c.ListAPIKeys(ctx, q)
	})
}

// CreateAPIKey makes a key. APIKey.Key has it with its secret, which nothing returns again. The request
// is repeated only if the service says that it did nothing; if a response is lost, the error matches
// [ErrUnknownOutcome], and a key may exist that nobody can use.
func (c *Client) CreateAPIKey(ctx context.Context, k NewAPIKey) (made APIKey, err error) {
	body, err := encode(k)
	if err == nil {
		_, err = c.do(ctx, call{route: route{"create-api-key", http.MethodPost, classGeneral}, path: "/create_api_key", body: body, once: true}, &required{"key", &made})
	}
	return made, err
}

// RevokeAPIKey revokes a key and, with made, those that it made, and those that these made. The error
// matches [ErrNotFound] if there is no key with the id.
func (c *Client) RevokeAPIKey(ctx context.Context, id string, made bool) (revoked Revocation, err error) {
	_, err = c.post(ctx, route{"revoke-api-key", http.MethodPost, classGeneral}, "/revoke_api_key", struct {
		ID   string `json:"id"`
		Made bool   `json:"made,omitzero"`
	}{id, made}, &revoked)
	return revoked, err
}

// SetAPIKeyPlan gives a key a plan; "" takes it away. The error matches [ErrNotFound] if there is no
// key with the id.
func (c *Client) SetAPIKeyPlan(ctx context.Context, id, plan string) (k APIKey, err error) {
	var named *string
	if plan != "" {
		named = &plan
	}
	_, err = c.post(ctx, route{"set-api-key-plan", http.MethodPost, classGeneral}, "/set_api_key_plan", struct {
		ID   string  `json:"id"`
		Plan *string `json:"plan"`
	}{id, named}, &k)
	return k, err
}

// onlyOnce turns the failure of a call that must not be repeated into one of unknown outcome, unless
// the service did nothing.
func (e *Error) onlyOnce() *Error {
	refused := e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
	unread := e.Status == http.StatusServiceUnavailable && (e.Code == "rate_limiter_unavailable" || strings.HasPrefix(e.Code, "access_"))
	if e.retryable && !refused && !unread {
		e.retryable, e.unknown = false, true
	}
	return e
}
