package ratelimit

import (
	"cmp"
	"fmt"
	"slices"
)

// DefaultLimit is the default limit of each rule, per window.
const DefaultLimit = 200

// MaxPerPartition is the highest limit that imports or requests may have, per window. All
// charges to one such counter write to one partition key, and a DynamoDB partition takes 1,000
// writes a second. The other 100 are left for refused charges, which also write.
const MaxPerPartition = 900

// SafePerPartition is how many charges per second a partition key can admit while it also
// refuses one charge a second from each of 200 instances.
const SafePerPartition = 800

// Action says what to do with the requests of an identity.
type Action string

const (
	ActionLimit     Action = "limit"     // 429 beyond the limits; the default
	ActionBlock     Action = "block"     // 403 for every request, without calling the store
	ActionUnlimited Action = "unlimited" // count every request, refuse none
	ActionObserve   Action = "observe"   // report requests beyond the limits, but let them pass without counting them
)

// Limits holds the limit of each rule, per window, the quotas, and the action. A zero field means the
// default: DefaultLimit, no quota, or ActionLimit.
type Limits struct {
	Records    int64 // per identity, across all export routes
	Imports    int64 // per identity, across all import routes; at most MaxPerPartition
	Requests   int64 // per identity and route; at most MaxPerPartition
	Quotas           // only of API keys
	ExportJobs bool  // whether a key with a quota of records may create export jobs, which the quota does not count
	Action     Action
}

// MayCreateExportJobs is false for keys with a quota of records, unless ExportJobs is set or the quota is
// not enforced.
func (l Limits) MayCreateExportJobs() bool {
	return l.ExportJobs || l.RecordsPerDay == 0 && l.RecordsPerMonth == 0 || l.Action == ActionUnlimited || l.Action == ActionObserve
}

// Or returns l with each zero field taken from defaults. ExportJobs is set if one of the two sets it.
func (l Limits) Or(defaults Limits) Limits {
	return Limits{
		Records:  cmp.Or(l.Records, defaults.Records),
		Imports:  cmp.Or(l.Imports, defaults.Imports),
		Requests: cmp.Or(l.Requests, defaults.Requests),
		Quotas:   l.or(defaults.Quotas), ExportJobs: l.ExportJobs || defaults.ExportJobs,
		Action: cmp.Or(l.Action, defaults.Action),
	}
}

// Check returns an error if a field is out of range. exportRoutes is the number of export
// routes, which share one partition key per identity. An identity that calls all of them can
// stay within its limits and still overload that key, so Check warns if more than
// SafePerPartition charges per second are possible.
func (l Limits) Check(exportRoutes int) (warning string, err error) {
	for _, limit := range []struct {
		name  string
		value int64
	}{{"records", l.Records}, {"imports", l.Imports}, {"requests", l.Requests}} {
		switch {
		case limit.value < 0:
			return "", fmt.Errorf("the limit of %s, %d, is negative; a limit is at least 1, or 0 for the default", limit.name, limit.value)
		case limit.value > MaxPerPartition && limit.name != RuleRecords:
			return "", fmt.Errorf("the limit of %s, %d, is above %d: each call writes to the same DynamoDB partition, which accepts 1,000 writes per second",
				limit.name, limit.value, MaxPerPartition)
		}
	}
	if err := l.check(); err != nil {
		return "", err
	}
	if !slices.Contains([]Action{"", ActionLimit, ActionBlock, ActionUnlimited, ActionObserve}, l.Action) {
		return "", fmt.Errorf("the action %q is not %s, %s, %s or %s", l.Action, ActionLimit, ActionBlock, ActionUnlimited, ActionObserve)
	}
	if sum := l.Requests * int64(exportRoutes); sum > SafePerPartition {
		warning = fmt.Sprintf("%d requests to each of %d export routes are %d writes to the same DynamoDB partition, which accepts 1,000 writes per second: "+
			"an address or key that sends more than %d of these requests in one second gets status 503 for some of them", l.Requests, exportRoutes, sum, SafePerPartition)
	}
	return warning, nil
}
