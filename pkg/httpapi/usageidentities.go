package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

const (
	maxIdentities  = 100  // in a response
	maxKeysListed  = 5000 // by a request; 15 take about one read unit
	maxLedgersRead = 1000 // by a request; each takes one read unit
)

// RefusedQuery ends the name of the saved query in template.yaml that says who is refused.
const RefusedQuery = "Refused most"

// identitiesQuery asks who has used the most. It is zero if nobody asks.
type identitiesQuery struct {
	period string // "minute", or that of a ratelimit.Period
	sort   usageColumn
}

const minute = "minute"

// usageColumn is a column by which the list can be sorted.
type usageColumn struct {
	name  string
	value func(api.IdentityUsage) float64 // -1 for unknown
}

func (c usageColumn) compare(a, b api.IdentityUsage) int { return cmp.Compare(c.value(b), c.value(a)) }

var usageColumns = []usageColumn{
	{"share", func(u api.IdentityUsage) float64 { return valueOr(u.Share, -1) }},
	{"records", func(u api.IdentityUsage) float64 { return float64(u.Records) }},
	{"imports", func(u api.IdentityUsage) float64 { return float64(u.Imports) }},
	{"requests", func(u api.IdentityUsage) float64 { return float64(valueOr(u.Requests, -1)) }},
	{"refused", func(u api.IdentityUsage) float64 { return float64(valueOr(u.Refused, -1)) }},
}

const columnsOfSums = 3 // usageColumns that a day and a month have

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// identities reads the parameters identities and sort.
func (p *parameters) identities() (q identitiesQuery) {
	if !p.values.Has("identities") {
		if p.values.Has("sort") {
			p.wrong.Add("sort", "needs the parameter identities")
		}
		return q
	}
	q = identitiesQuery{p.values.Get("identities"), usageColumns[0]}
	columns := usageColumns[:columnsOfSums]
	switch q.period {
	case minute:
		columns = usageColumns
	case ratelimit.Day.String(), ratelimit.Month.String():
	default:
		p.wrong.Add("identities", "must be minute, day or month")
		return q
	}
	if p.values.Has("address") || p.values.Has("key") {
		p.wrong.Add("identities", "cannot be combined with address or key")
	}
	if p.values.Has("sort") {
		var names []string
		for _, c := range columns {
			names = append(names, c.name)
		}
		if i := slices.Index(names, p.values.Get("sort")); i >= 0 {
			q.sort = columns[i]
		} else {
			p.wrong.Add("sort", fmt.Sprintf("of a %s must be one of %s", q.period, strings.Join(names, ", ")))
		}
	}
	return q
}

// usageIdentities returns who has used the most up to last.
func (s *service) usageIdentities(ctx context.Context, q identitiesQuery, last ratelimit.Window) (*api.UsageIdentities, error) {
	list := &api.UsageIdentities{Period: q.period, Complete: true}
	if s.stores.Minute == nil && s.Service != "" && s.LogsConsole != "" {
		list.RefusalsQuery = &api.SavedQuery{Name: s.Service + "/" + RefusedQuery, URL: s.LogsConsole}
	}
	var err error
	top := topUsage{column: q.sort}
	if q.period == minute {
		list.Start = int64(ratelimit.FirstUsageWindow(last))
		err = s.usedInMinute(ctx, last, &top)
	} else {
		p := ratelimit.Day
		if q.period == ratelimit.Month.String() {
			p = ratelimit.Month
		}
		list.Start = int64(p.Start(last))
		list.Complete, err = s.usedInPeriod(ctx, p, last, &top)
	}
	if err != nil {
		return nil, record.UnavailableError("usage", err)
	}
	if q.period != minute || s.stores.Minute != nil { // otherwise nothing has the counters of all
		top.cut()
		list.Data, list.LeftOut = top.data, top.left
	}
	return list, nil
}

// topUsage keeps the identities that have the most in a column: in a flood there may be a million.
type topUsage struct {
	column usageColumn
	data   []api.IdentityUsage
	least  *api.IdentityUsage // what is not before it is not kept; nil until that is known
	left   int                // how many were not kept
}

func (t *topUsage) add(u api.IdentityUsage) {
	if t.least != nil && t.compare(u, *t.least) > 0 {
		t.left++
		return
	}
	if t.data = append(t.data, u); len(t.data) == 2*maxIdentities {
		t.cut()
	}
}

// cut leaves at most maxIdentities, sorted.
func (t *topUsage) cut() {
	slices.SortFunc(t.data, t.compare)
	n := min(len(t.data), maxIdentities)
	t.left += len(t.data) - n
	if t.data = append(make([]api.IdentityUsage, 0, n), t.data[:n]...); n == maxIdentities {
		t.least = &t.data[n-1]
	}
}

// compare puts the highest value of the column first. In a tie, the other columns decide, then the name.
func (t *topUsage) compare(a, b api.IdentityUsage) int {
	if order := t.column.compare(a, b); order != 0 {
		return order
	}
	for _, c := range usageColumns {
		if order := c.compare(a, b); order != 0 {
			return order
		}
	}
	return strings.Compare(a.Counted, b.Counted)
}

// usedInMinute adds what every address and key has used, and how often it was refused.
func (s *service) usedInMinute(ctx context.Context, last ratelimit.Window, top *topUsage) error {
	if s.stores.Minute == nil {
		return nil
	}
	used, err := s.stores.Minute.Minute(ctx, last)
	if err != nil {
		return err
	}
	refused := s.refusals.Minute(last)
	for identity := range refused {
		if _, ok := used[identity]; !ok {
			used[identity] = ratelimit.MinuteUsage{}
		}
	}
	for identity, u := range used {
		k := access.Key{}
		if id, ok := ratelimit.KeyID(identity); ok {
			if k, err = s.stores.Keys.Get(ctx, id); err != nil && !errors.Is(err, access.ErrNotFound) {
				return err
			}
			k.ID = id
		}
		one, limits, err := s.describe(identity, k)
		if err != nil {
			return err
		}
		n, share := refused[identity], u.Peak.Share(limits)
		one.Records, one.Imports, one.Requests, one.Refused, one.Share = u.Records, u.Imports, &u.Requests, &n, &share
		top.add(one)
	}
	return nil
}

// describe returns who an identity is, without its usage, and the limits in force. k is the key, if it is one.
func (s *service) describe(identity string, k access.Key) (api.IdentityUsage, ratelimit.Limits, error) {
	caller := ratelimit.Caller{KeyID: k.ID, Plan: k.Plan}
	if k.ID == "" {
		address, _, _ := strings.Cut(identity, "/")
		var err error
		if caller.Address, err = ratelimit.ParseAddress(address, s.IPv6Prefix); err != nil {
			return api.IdentityUsage{}, ratelimit.Limits{}, err
		}
	}
	limits := s.subject(caller).Limits
	return api.IdentityUsage{Counted: ratelimit.Named(identity), Name: k.Name, Workspace: k.Workspace, Plan: k.Plan, Action: string(limits.Action)}, limits, nil
}

// usedInPeriod adds what the keys with limits of their own have used in the day or month of last. complete is
// false if there are more keys than it reads.
func (s *service) usedInPeriod(ctx context.Context, p ratelimit.Period, last ratelimit.Window, top *topUsage) (complete bool, err error) {
	keys, complete, err := s.countedKeys(ctx, time.Unix(int64(p.Start(last)), 0))
	if err != nil {
		return false, err
	}
	identities := make([]string, len(keys))
	for i, k := range keys {
		identities[i] = ratelimit.KeyIdentity(k.ID)
	}
	used, err := s.stores.Usage.Sums(ctx, identities, p, last)
	if err != nil {
		return false, err
	}
	for i, k := range keys {
		u, ok := used[identities[i]]
		if !ok {
			continue
		}
		one, limits, err := s.describe(identities[i], k)
		if err != nil {
			return false, err
		}
		one.Records, one.Imports = u.Records, u.Imports
		if share, ok := u.Share(limits.Quotas, p); ok {
			one.Share = &share
		}
		top.add(one)
	}
	return complete, nil
}

// countedKeys returns the keys that have a plan or a row of limits, and so are counted themselves, and that
// could be used after since.
func (s *service) countedKeys(ctx context.Context, since time.Time) (keys []access.Key, complete bool, err error) {
	const page = 1000
	ended := func(t time.Time) bool { return !t.IsZero() && t.Add(ratelimit.MaxRowAge).Before(since) } // instances notice it a little later
	after := ""
	for range maxKeysListed / page {
		var some []access.Key
		if some, after, err = s.stores.Keys.List(ctx, "", after, page); err != nil {
			return nil, false, err
		}
		for _, k := range some {
			_, hasRow := s.Rows.Value().OfKey(k.ID, s.Now())
			if (k.Plan != "" || hasRow) && !ended(k.RevokedAt) && !ended(k.ExpiresAt) {
				keys = append(keys, k)
			}
		}
		if after == "" {
			break
		}
	}
	complete = after == "" && len(keys) <= maxLedgersRead
	return keys[:min(len(keys), maxLedgersRead)], complete, nil
}
