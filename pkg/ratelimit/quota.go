package ratelimit

import (
	"cmp"
	"fmt"
)

// MaxQuota is the highest quota.
const MaxQuota = 1_000_000_000_000

// The names of the rules of quotas, which clients see in headers and problems.
const (
	RuleRecordsDay   = "records-day"
	RuleRecordsMonth = "records-month"
	RuleImportsDay   = "imports-day"
	RuleImportsMonth = "imports-month"
)

// Quotas limit what an API key uses in a UTC day and in a calendar month (UTC). 0 means that there is no
// such quota. Addresses have none.
type Quotas struct {
	RecordsPerDay   int64 `json:"records_per_day,omitzero"`
	RecordsPerMonth int64 `json:"records_per_month,omitzero"`
	ImportsPerDay   int64 `json:"imports_per_day,omitzero"`
	ImportsPerMonth int64 `json:"imports_per_month,omitzero"`
}

// Quota is one of Quotas.
type Quota struct {
	Rule    string // such as RuleRecordsDay
	Counter string // RuleRecords or RuleImports
	Period  Period // Day or Month
	Limit   int64  // 0 for none
}

// AllQuotas returns all quotas, also those of 0.
func (q Quotas) AllQuotas() []Quota {
	return []Quota{
		{RuleRecordsDay, RuleRecords, Day, q.RecordsPerDay},
		{RuleRecordsMonth, RuleRecords, Month, q.RecordsPerMonth},
		{RuleImportsDay, RuleImports, Day, q.ImportsPerDay},
		{RuleImportsMonth, RuleImports, Month, q.ImportsPerMonth},
	}
}

// or returns q with each zero field taken from defaults.
func (q Quotas) or(defaults Quotas) Quotas {
	return Quotas{
		RecordsPerDay:   cmp.Or(q.RecordsPerDay, defaults.RecordsPerDay),
		RecordsPerMonth: cmp.Or(q.RecordsPerMonth, defaults.RecordsPerMonth),
		ImportsPerDay:   cmp.Or(q.ImportsPerDay, defaults.ImportsPerDay),
		ImportsPerMonth: cmp.Or(q.ImportsPerMonth, defaults.ImportsPerMonth),
	}
}

// check returns an error if a quota is negative or above MaxQuota.
func (q Quotas) check() error {
	for _, one := range q.AllQuotas() {
		if one.Limit < 0 || one.Limit > MaxQuota {
			return fmt.Errorf("the quota of %s per %v, %d, must be from 1 to %d, or 0 for none", one.Counter, one.Period, one.Limit, int64(MaxQuota))
		}
	}
	return nil
}

// costs returns what amount, a cost under the rule of counter, takes from the quotas.
func (q Quotas) costs(counter string, amount int64) (all []Cost) {
	for _, one := range q.AllQuotas() {
		if one.Counter == counter && one.Limit > 0 {
			all = append(all, Cost{Rule{one.Rule, counter, one.Period, one.Limit}, amount})
		}
	}
	return all
}
