package httpapi

import (
	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/ratelimit"
)

// audited makes a change and records it, with who made it, and from where. what has Record.Of and, if
// the change is about one, the workspace.
func (s *service) audited(r *request, what audit.Record, old any, change func() (any, error)) error {
	what.Action, what.From, what.By = r.route.Name, r.address, "anyone"
	if r.key.ID != "" {
		what.By = ratelimit.KeyIdentity(r.key.ID)
	}
	trail := audit.Trail{Store: s.stores.Audit, Now: s.Now, Lost: func(err error) {
		s.Logger.Error("a change is in the audit trail without its result", "request_id", r.id, "error", err.Error())
	}}
	return trail.Do(r.Context(), what, old, change)
}

// listAudit also serves a caller without the scope operator, who sees the records of its workspace.
func listAudit(s *service, r *request) (response, error) {
	p := parseQuery(r, "limit", "cursor", "workspace")
	workspace := p.filter("workspace", access.CheckWorkspace)
	q := audit.Query{Limit: p.limit(maxPageLength)}
	q.Cursor = p.cursor(r).Store
	if err := p.err(); err != nil {
		return response{}, err
	}
	var err error
	if q.Workspace, err = r.managed(workspace, p.values.Has("workspace")); err != nil {
		return response{}, err
	}
	q.All = q.Workspace == ""
	found, err := s.stores.Audit.List(r.Context(), q)
	return listResponse(r, found, cursor{Filters: p.filters.Encode()}, err)
}
