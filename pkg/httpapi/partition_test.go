package httpapi_test

import (
	"testing"

	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// chargesPerPartition returns the maximum number of charges per second on each group's partition
// key: the sum of its routes' request limits. For imports, limits.Imports caps that sum.
func chargesPerPartition(limits ratelimit.Limits) map[ratelimit.Group]int64 {
	charges := make(map[ratelimit.Group]int64)
	seen := make(map[string]bool) // routes with the same name share a counter
	for _, r := range httpapi.Routes() {
		if seen[r.Name] {
			continue
		}
		seen[r.Name] = true
		group := ratelimit.Route{Name: r.Name, Class: r.Class}.Group()
		charges[group] += limits.Requests
		if r.Class == ratelimit.Import {
			charges[group] = min(charges[group], limits.Imports)
		}
	}
	return charges
}

func TestDefaultLimitsFitThePartitions(t *testing.T) {
	defaults := ratelimit.Limits{Requests: ratelimit.DefaultLimit, Imports: ratelimit.DefaultLimit}
	for group, n := range chargesPerPartition(defaults) {
		t.Logf("%-20s %d charges a second", group, n)
		if n > ratelimit.SafePerPartition {
			t.Errorf("%s: one partition key may have to admit %d charges per second, want at most %d", group, n, ratelimit.SafePerPartition)
		}
	}
}

func TestCheckKnowsThePartitionOfExports(t *testing.T) {
	exports := 0
	for _, r := range httpapi.Routes() {
		if r.Class == ratelimit.Export {
			exports++
		}
	}
	for requests := int64(150); requests <= ratelimit.MaxPerPartition; requests += 50 {
		limits := ratelimit.Limits{Requests: requests, Imports: 200}
		warning, err := limits.Check(exports)
		if tooMuch := chargesPerPartition(limits)["export"] > ratelimit.SafePerPartition; (warning != "") != tooMuch || err != nil {
			t.Errorf("%d requests: warning %q, error %v, more than is safe: %v", requests, warning, err, tooMuch)
		}
	}
}
