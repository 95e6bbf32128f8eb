package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/index"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// adminError returns the error of an administrative action, or nil for any other error.
func adminError(err error) *apiError {
	if beyond, ok := errors.AsType[*access.BeyondError](err); ok {
		return &apiError{status: http.StatusForbidden, code: "beyond_own_rights", detail: beyond.Error()}
	}
	if conflict, ok := errors.AsType[*index.ConflictError](err); ok {
		return &apiError{status: http.StatusConflict, code: "index_conflict", detail: conflict.Error()}
	}
	if errors.Is(err, access.ErrMaker) { // the caller's own key, which this instance still has in its cache
		return invalidKey()
	}
	for _, known := range []struct {
		err    error
		status int
		code   string
	}{
		{access.ErrNotFound, http.StatusNotFound, "not_found"},
		{access.ErrTooManyMade, http.StatusConflict, "too_many_keys"},
		{access.ErrCounted, http.StatusConflict, "counted_as_maker"},
		{access.ErrNoPlan, http.StatusConflict, "no_such_plan"},
		{access.ErrPlanInUse, http.StatusConflict, "plan_in_use"},
		{ratelimit.ErrNoRow, http.StatusNotFound, "not_found"},
		{ratelimit.ErrTooManyRows, http.StatusConflict, "too_many_limits"},
		{ratelimit.ErrTooManyBlocks, http.StatusConflict, "too_many_limits"},
		{index.ErrNotFound, http.StatusNotFound, "not_found"},
		{index.ErrRemoving, http.StatusConflict, "index_removing"},
		{index.ErrChanged, http.StatusConflict, "index_conflict"},
	} {
		if errors.Is(err, known.err) {
			return &apiError{status: known.status, code: known.code, detail: known.err.Error()}
		}
	}
	return nil
}

// managed returns the workspace that a caller without the scope operator manages, and requires that
// scope for any other. "" stands for all workspaces.
func (r *request) managed(workspace string, given bool) (string, error) {
	if !given && !r.key.Has(access.Operator) || given && workspace == r.workspace {
		return r.workspace, nil
	}
	return workspace, r.require(access.Operator)
}

// listAPIKey also serves a caller without the scope operator, who sees the keys of its workspace.
func listAPIKey(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor", "workspace")
	workspace := p.filter("workspace", access.CheckWorkspace)
	limit := p.limit(maxPageLength)
	after := p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	workspace, err := r.managed(workspace, p.values.Has("workspace"))
	if err != nil {
		return response{}, err
	}
	keys, next, err := s.stores.Keys.List(r.Context(), workspace, string(after), limit)
	found := record.Page[access.Shown]{Records: []access.Shown{}, Next: record.Cursor(next)}
	for _, k := range keys {
		found.Records = append(found.Records, k.Show(s.Now()))
	}
	return listResponse(r, p, found, err)
}

func createAPIKey(s *service, r *request) (response, error) {
	var k access.Key
	var expires *record.Time
	err := r.decode(record.Decoders{
		"name":       record.Text(&k.Name, access.CheckName),
		"workspace":  record.Text(&k.Workspace, access.CheckWorkspace),
		"scopes":     record.Texts(&k.Scopes, len(access.Scopes()), access.CheckScope),
		"plan":       record.Text(&k.Plan, access.CheckPlan),
		"from":       blocks(&k.From),
		"expires_at": record.Instant(&expires),
	}, "scopes")
	if err != nil {
		return response{}, err
	}
	if expires != nil {
		k.ExpiresAt = expires.Time()
	}
	k, token, err := r.make(k, s.Now())
	if err == nil {
		err = s.checkPlan(r, k.Plan)
	}
	if err != nil {
		return response{}, err
	}
	shown := k.Show(s.Now())
	err = s.audited(r, audit.Record{Workspace: k.Workspace, Of: ratelimit.KeyIdentity(k.ID)}, nil, func() (any, error) {
		return shown, s.stores.Keys.Create(r.Context(), k)
	})
	if err != nil {
		return response{}, err
	}
	shown.Key = token.Reveal()
	return response{status: http.StatusCreated, body: shown}, nil
}

// decode decodes the body, in which the required members must not be null. Those that may be null end
// in a question mark.
func (r *request) decode(d record.Decoders, required ...string) error {
	if err := d.Decode(r.body); err != nil {
		return err
	}
	members, err := record.Pairs(r.body)
	var wrong record.Fields
	for _, name := range required {
		name, nullable := strings.CutSuffix(name, "?")
		if !slices.ContainsFunc(members, func(m record.Pair) bool { return m.Name == name && (nullable || string(m.Value) != "null") }) {
			wrong.Add(name, "is required")
		}
	}
	return cmp.Or(err, wrong.Err())
}

// make makes a key like k for the caller. What is wrong with k, and not with what the caller may do,
// is an error with code Invalid.
func (r *request) make(k access.Key, now time.Time) (access.Key, access.Token, error) {
	by := r.key
	by.Workspace = r.workspace // r.key has none if API keys are off
	k, token, err := by.Make(k, now)
	if _, beyond := errors.AsType[*access.BeyondError](err); err != nil && !beyond {
		err = &record.Error{Code: record.Invalid, Detail: err.Error()}
	}
	return k, token, err
}

// blocks decodes CIDR blocks and addresses.
func blocks(into *[]netip.Prefix) record.Decoder {
	const longest = 128 // any prefix length, because a client's whole address is compared
	var texts []string
	decode := record.Texts(&texts, access.MaxFrom, nil)
	return func(value []byte) error {
		if err := decode(value); err != nil {
			return err
		}
		for _, text := range texts {
			block, err := ratelimit.ParseCIDR(text, longest)
			if err != nil {
				return fmt.Errorf("is wrong: %w", err)
			}
			*into = append(*into, block)
		}
		return nil
	}
}

// checkPlan returns access.ErrNoPlan if there is no such plan.
func (s *service) checkPlan(r *request, plan string) error {
	if plan == "" {
		return nil
	}
	rows, err := s.rows(r)
	if err != nil {
		return err
	}
	return access.CheckPlanIn(rows, plan)
}

// rows returns the valid rows of limits as they were last written.
func (s *service) rows(r *request) ([]ratelimit.Row, error) {
	rows, err := s.stores.LimitRows.List(r.Context())
	if _, invalid := errors.AsType[ratelimit.InvalidRows](err); invalid {
		err = nil
	}
	return rows, err
}

func revokeAPIKey(s *service, r *request) (response, error) {
	var id string
	var made bool
	if err := r.decode(record.Decoders{"id": record.Text(&id, access.CheckID), "made": record.Boolean(&made)}, "id"); err != nil {
		return response{}, err
	}
	k, err := s.managedKey(r, id)
	if err != nil {
		return response{}, err
	}
	_, hasRow := s.Rows.Value().OfKey(id, s.Now())
	if err := r.key.CheckRevoke(k, hasRow); err != nil {
		return response{}, err
	}
	var shown access.Revocation
	err = s.audited(r, audit.Record{Workspace: k.Workspace, Of: ratelimit.KeyIdentity(id)}, k.Show(s.Now()), func() (any, error) {
		k, others, err := access.Revoke(r.Context(), s.stores.Keys, id, made, s.Now())
		shown = access.ShowRevoked(k, others, s.Now())
		return shown, err
	})
	return response{status: http.StatusOK, body: shown}, err
}

// managedKey returns a key. To a caller that does not manage its workspace, there is no such key.
func (s *service) managedKey(r *request, id string) (access.Key, error) {
	k, err := s.stores.Keys.Get(r.Context(), id)
	if err == nil && !r.key.ManagesAll() && k.Workspace != r.workspace {
		err = access.ErrNotFound
	}
	return k, err
}

func setAPIKeyPlan(s *service, r *request) (response, error) {
	if err := r.require(access.Operator); err != nil {
		return response{}, err
	}
	var id, plan string
	if err := r.decode(record.Decoders{"id": record.Text(&id, access.CheckID), "plan": record.Text(&plan, access.CheckPlan)}, "id", "plan?"); err != nil {
		return response{}, err
	}
	if err := s.checkPlan(r, plan); err != nil {
		return response{}, err
	}
	k, err := s.stores.Keys.Get(r.Context(), id)
	if err != nil {
		return response{}, err
	}
	var shown access.Shown
	err = s.audited(r, audit.Record{Workspace: k.Workspace, Of: ratelimit.KeyIdentity(id)}, k.Show(s.Now()), func() (any, error) {
		k, err := access.SetPlan(r.Context(), s.stores.Keys, id, plan)
		shown = k.Show(s.Now())
		return shown, err
	})
	return response{status: http.StatusOK, body: shown}, err
}
