package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// getUsage responds with the usage of the last 60 seconds, and of a key also that of the day and the
// month. By default, that is the usage of the identity by which the caller is counted. An operator can
// name another identity in the query, with the parameter address (an IP address, or a prefix such as
// 2001:db8::/64) or with the parameter key (the id of an API key).
func getUsage(s *service, r *request) (response, error) {
	p := parseQuery(r, "address", "key")
	address, subject := r.client, r.subject
	if p.values.Has("address") {
		var err error
		address, err = ratelimit.ParseAddress(strings.TrimSuffix(p.values.Get("address"), "/"+strconv.Itoa(s.IPv6Prefix)), s.IPv6Prefix)
		if err != nil {
			p.wrong.Add("address", "must be an IPv4 or IPv6 address")
		}
		subject = s.subject(ratelimit.Caller{Address: address})
	}
	if p.values.Has("key") {
		if !access.IsID(p.values.Get("key")) {
			p.wrong.Add("key", "must be the id of an API key")
		} else if p.values.Has("address") {
			p.wrong.Add("key", "cannot be combined with address")
		}
	}
	if err := p.err(); err != nil {
		return response{}, err
	}
	if len(p.values) > 0 {
		if err := r.require(access.Operator); err != nil {
			return response{}, err
		}
	}
	if p.values.Has("key") {
		of := ratelimit.Caller{KeyID: p.values.Get("key")}
		if s.Access != nil {
			k, err := s.Access.Counted(r.Context(), of.KeyID)
			if err != nil {
				return response{}, record.UnavailableError("usage", err)
			}
			of = ratelimit.Caller{KeyID: k.ID, Plan: k.Plan}
		}
		subject = s.subject(of)
	}
	use, err := ratelimit.Usage(r.Context(), s.stores.Usage, subject.Identity, s.limitedRoutes(), ratelimit.WindowAt(s.Now()))
	if err != nil {
		return response{}, record.UnavailableError("usage", err)
	}
	limits := subject.Limits
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
