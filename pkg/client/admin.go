package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/audit"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// The JSON of administration. Packages access, ratelimit and audit describe the fields.
type (
	APIKey      = access.Shown
	Revocation  = access.Revocation
	Scope       = access.Scope
	Limit       = ratelimit.Row
	AuditRecord = audit.Record
)

// NewAPIKey says what a new key may do. Only Scopes is required. If the key in Config may not give that,
// the call fails with an [*Error] with the code "beyond_own_rights".
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

// ListLimits returns the rows that override limits. Like all methods about limits, it needs the scope
// operator too.
func (c *Client) ListLimits(ctx context.Context) ([]Limit, error) {
	page, err := getPage[Limit](ctx, c, route{"list-limit", http.MethodGet, classGeneral}, "/limit", nil, 0)
	return page.Data, err
}

// SetLimit sets or replaces the row of a CIDR block, an API key or a plan, whichever l names.
func (c *Client) SetLimit(ctx context.Context, l Limit) (stored Limit, err error) {
	_, err = c.change(ctx, route{"set-limit", http.MethodPost, classGeneral}, "/set_limit", l, &required{"updated_at", &stored})
	return stored, err
}

// RemoveLimit removes the row of a CIDR block, an API key or a plan, whichever l names; the rest of l
// does not matter. The error matches [ErrNotFound] if there is no such row.
func (c *Client) RemoveLimit(ctx context.Context, l Limit) error {
	of := struct {
		CIDR  netip.Prefix `json:"cidr,omitzero"`
		KeyID string       `json:"key_id,omitzero"`
		Plan  string       `json:"plan,omitzero"`
	}{l.CIDR, l.KeyID, l.Plan}
	_, err := c.change(ctx, route{"remove-limit", http.MethodPost, classGeneral}, "/remove_limit", of, &of)
	return err
}

// NewEntityIndex declares an index of the entities of a type, or of events by name.
type NewEntityIndex struct {
	Workspace  string               `json:"workspace,omitzero"` // by default that of the key in Config
	Resource   record.Resource      `json:"resource,omitzero"`  // entity by default; an index of events has no type and no attributes
	Type       string               `json:"type,omitzero"`
	Attributes []api.IndexAttribute `json:"attributes,omitzero"`
}

// CreateEntityIndex declares an index, which the service then builds: [Client.EntityIndexes] shows how
// far it is. If the index exists, it is returned.
func (c *Client) CreateEntityIndex(ctx context.Context, x NewEntityIndex) (declared api.EntityIndex, err error) {
	x.Attributes = slices.Clone(x.Attributes)
	for i := range x.Attributes {
		x.Attributes[i].ValueType = cmp.Or(x.Attributes[i].ValueType, "text")
	}
	_, err = c.change(ctx, route{"create-entity-index", http.MethodPost, classGeneral}, "/create_entity_index", x, &required{"state", &declared})
	return declared, err
}

// RemoveEntityIndex removes an index; of its attributes, only the names matter. The error matches
// [ErrNotFound] if there is no such index.
func (c *Client) RemoveEntityIndex(ctx context.Context, x NewEntityIndex) (removed api.EntityIndex, err error) {
	var names []string
	for _, a := range x.Attributes {
		names = append(names, a.Name)
	}
	of := struct {
		Workspace  string          `json:"workspace,omitzero"`
		Resource   record.Resource `json:"resource,omitzero"`
		Type       string          `json:"type,omitzero"`
		Attributes []string        `json:"attributes,omitzero"`
	}{x.Workspace, x.Resource, x.Type, names}
	_, err = c.change(ctx, route{"remove-entity-index", http.MethodPost, classGeneral}, "/remove_entity_index", of, &required{"state", &removed})
	return removed, err
}

// AuditQuery selects administrative changes, newest first. Its zero value selects those in the
// caller's workspace or, with the scope operator, all.
type AuditQuery struct {
	Workspace string
	By, Of    string // with what these members of the records begin; empty for any
	Limit     int    // per page, 1 to 200; 0 for the service's default, 50
	Cursor    string // NextCursor of the previous page; empty for the first page
}

// ListAudit returns one page of administrative changes.
func (c *Client) ListAudit(ctx context.Context, q AuditQuery) (Page[AuditRecord], error) {
	return getPage[AuditRecord](ctx, c, route{"list-audit", http.MethodGet, classGeneral}, "/audit", values("workspace", q.Workspace, "by", q.By, "of", q.Of, "cursor", q.Cursor), q.Limit)
}

// Audit iterates over the administrative changes of all pages. It ends after the first error, which it
// yields with a zero record.
func (c *Client) Audit(ctx context.Context, q AuditQuery) iter.Seq2[AuditRecord, error] {
	return records(q.Cursor, func(cursor string) (Page[AuditRecord], error) {
		q.Cursor = cursor
		return c.ListAudit(ctx, q)
	})
}
