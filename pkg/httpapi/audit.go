package httpapi

import (
	"fmt"
	"unicode/utf8"

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
	p := parseQuery(r, "limit", "cursor", "workspace", "by", "of")
	workspace := p.filter("workspace", access.CheckWorkspace)
	q := audit.Query{Limit: p.limit(maxPageLength), By: p.filter("by", checkBeginning), Of: p.filter("of", checkBeginning)}
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
	return listResponse(r, p, found, err)
}

// maxBeginning is more than audit.Record.Of can have, in characters.
const maxBeginning = 600

func checkBeginning(text string) error {
	if n := utf8.RuneCountInString(text); !utf8.ValidString(text) || n < 1 || n > maxBeginning {
		return fmt.Errorf("must have 1 to %d characters in UTF-8", maxBeginning)
	}
	return nil
}
