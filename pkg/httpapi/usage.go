package httpapi

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// usageQuery says whose usage is wanted: by default the caller's. Only an operator may ask for that of others.
type usageQuery struct {
	address    *netip.Prefix // such as 192.0.2.1 or 2001:db8::/64; nil if the query has none
	key        string        // id of an API key; "" if the query has none
	identities identitiesQuery
}

func parseUsageQuery(s *service, r *request) (q usageQuery, err error) {
	p := parseQuery(r, "address", "key", "identities", "sort")
	if p.values.Has("address") {
		address, err := ratelimit.ParseAddress(strings.TrimSuffix(p.values.Get("address"), "/"+strconv.Itoa(s.IPv6Prefix)), s.IPv6Prefix)
		if err != nil {
			p.wrong.Add("address", "must be an IPv4 or IPv6 address")
		}
		q.address = &address
	}
	if p.values.Has("key") {
		if q.key = p.values.Get("key"); !access.IsID(q.key) {
			p.wrong.Add("key", "must be the id of an API key")
		} else if q.address != nil {
			p.wrong.Add("key", "cannot be combined with address")
		}
	}
	q.identities = p.identities()
	if err := p.err(); err != nil {
		return q, err
	}
	if len(p.values) > 0 {
		err = r.require(access.Operator)
	}
	return q, err
}

// usageSubject returns who is counted for the address or key of a query; by default, the caller.
func (s *service) usageSubject(r *request, q usageQuery) (ratelimit.Subject, error) {
	switch {
	case q.address != nil:
		return s.subject(ratelimit.Caller{Address: *q.address}), nil
	case q.key == "":
		return r.subject, nil
	}
	of := ratelimit.Caller{KeyID: q.key}
	if s.Access != nil {
		k, err := s.Access.Counted(r.Context(), of.KeyID)
		if err != nil {
			return ratelimit.Subject{}, record.UnavailableError("usage", err)
		}
		of = ratelimit.Caller{KeyID: k.ID, Plan: k.Plan}
	}
	return s.subject(of), nil
}

// getUsage responds with the usage of the last 60 seconds, and of a key also that of the day and the
// month.
func getUsage(s *service, r *request) (response, error) {
	q, err := parseUsageQuery(s, r)
	if err != nil {
		return response{}, err
	}
	subject, err := s.usageSubject(r, q)
	if err != nil {
		return response{}, err
	}
	last := ratelimit.WindowAt(s.Now())
	use, err := ratelimit.Usage(r.Context(), s.stores.Usage, subject.Identity, s.limitedRoutes(), last)
	if err != nil {
		return response{}, record.UnavailableError("usage", err)
	}
	address, limits := r.client, subject.Limits
	if q.address != nil {
		address = *q.address
	}
	body := api.Usage{
		Counted: ratelimit.Named(subject.Identity),
		Address: ratelimit.AddressIdentity(address),
		Action:  string(limits.Action),
		Limit:   min(limits.Records, limits.Imports, limits.Requests),
		Limits:  api.UsageLimits{Records: limits.Records, Imports: limits.Imports, Requests: limits.Requests},
		Seconds: make([]api.UsageSecond, len(use.Seconds)),
		Day:     periodOf(use.Day, limits.RecordsPerDay, limits.ImportsPerDay),
		Month:   periodOf(use.Month, limits.RecordsPerMonth, limits.ImportsPerMonth),
		Caller:  callerOf(r),
	}
	for i, w := range use.Seconds {
		body.Seconds[i] = api.UsageSecond{Second: int64(w.Window), Records: w.Records, Imports: w.Imports, Requests: w.Requests}
	}
	if q.identities.period != "" {
		if body.Identities, err = s.usageIdentities(r.Context(), q.identities, last); err != nil {
			return response{}, err
		}
	}
	return response{status: http.StatusOK, body: body}, nil
}

func callerOf(r *request) api.Caller {
	c := api.Caller{Workspace: r.workspace, Scopes: make([]string, len(r.key.Scopes))}
	for i, s := range r.key.Scopes {
		c.Scopes[i] = string(s)
	}
	if r.key.ID != "" {
		c.KeyID = &r.key.ID
	}
	return c
}

func periodOf(p *ratelimit.PeriodUsage, records, imports int64) *api.UsagePeriod {
	if p == nil {
		return nil
	}
	return &api.UsagePeriod{Start: int64(p.Start), Records: p.Records, Imports: p.Imports, Limits: api.UsageQuotas{Records: records, Imports: imports}}
}

// limitedRoutes returns the routes whose requests GET /usage shows, which are all but those of
// administration: on AWS, each would cost reads of its own.
func (s *service) limitedRoutes() (routes []ratelimit.Route) {
	for _, r := range s.routes() {
		if !r.Admin() {
			routes = append(routes, r.limited())
		}
	}
	return routes
}
