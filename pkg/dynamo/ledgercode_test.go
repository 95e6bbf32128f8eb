package dynamo

import (
	"testing"
	"time"

	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

func TestTheCountersOfAGroupHaveDifferentCodes(t *testing.T) {
	t.Parallel()
	codes := make(map[string]string) // counters, by group and code
	for _, r := range httpapi.Routes() {
		route := ratelimit.Route{Name: r.Name, Class: r.Class}
		for _, counter := range route.Counters() {
			id := string(route.Group()) + " " + counterCode(counter)
			if other := codes[id]; other != "" && other != counter || len(counterCode(counter)) != codeLength {
				t.Errorf("%s and %s have the code %s", counter, other, id)
			}
			codes[id] = counter
		}
	}
}

func TestNamesOfCountersAreParsed(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		time.Date(2026, 11, 27, 13, 14, 15, 0, time.UTC), time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2039, 2, 28, 1, 2, 3, 0, time.UTC), time.Date(2000, 2, 29, 1, 2, 3, 0, time.UTC),
	} {
		for _, p := range []ratelimit.Period{ratelimit.Second, ratelimit.Day, ratelimit.Month} {
			w := ratelimit.WindowAt(at)
			name := ledgerName("r_list_entity", p, w)
			code, gotPeriod, start, ok := parseLedgerName(name)
			if !ok || code != counterCode("r_list_entity") || gotPeriod != p || start != p.Start(w) || len(name) > 9 {
				t.Errorf("%s: %s is read as %s, %d, %d, %v", at, name, code, gotPeriod, start, ok)
			}
		}
	}
	for _, name := range []string{"pk", "second", "floor", "expires_at", ""} {
		if _, _, _, ok := parseLedgerName(name); ok {
			t.Errorf("%q is taken for a counter", name)
		}
	}
}
