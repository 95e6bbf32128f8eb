package dynamo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/ratelimit"
)

// instantTable counts the calls of all its instances.
type instantTable struct {
	w     *ledgerWorld
	calls *int
}

func (s instantTable) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	*s.calls++
	return s.w.apply(in)
}

func (s instantTable) instance(t *testing.T) *Counters {
	t.Helper()
	c, err := NewCounters(s, "t")
	if err != nil {
		t.Fatal(err)
	}
	c.dateOf = simulatedDate
	return c
}

// size is the size of an item as DynamoDB counts it, in bytes: names as UTF-8, and for a number one byte
// for two digits and one more. Source: DynamoDB Developer Guide, "Item sizes and formats".
func (w *ledgerWorld) size(pk string) int {
	size := len("pk") + len(pk) + len("second") + 2
	for name, n := range w.items[pk] {
		size += len(name) + (len(strings.TrimRight(fmt.Sprint(n), "0"))+1)/2 + 1
	}
	return size
}

var (
	exportRoutes = []string{"list-entity", "get-entity", "list-event", "get-event"}
	importRoutes = []string{"create-entity", "update-entity", "delete-entity", "upsert-entities", "create-event", "create-events"}
)

func ledgerCosts(n int) (ratelimit.Group, []ratelimit.Cost) {
	rule, amount, group, routes := ratelimit.RuleRecords, int64(1_000_000), ratelimit.Group("export"), exportRoutes
	if n%2 == 0 {
		rule, amount, group, routes = ratelimit.RuleImports, 1, "import", importRoutes
	}
	of := func(counter string, p ratelimit.Period, amount int64) ratelimit.Cost {
		return ratelimit.Cost{Rule: ratelimit.Rule{Counter: counter, Period: p, Limit: ratelimit.MaxQuota}, Amount: amount}
	}
	route := "r_" + strings.ReplaceAll(routes[n/2%len(routes)], "-", "_")
	return group, []ratelimit.Cost{of(rule, ratelimit.Second, amount), of(route, ratelimit.Second, 1), of(rule, ratelimit.Day, amount), of(rule, ratelimit.Month, amount)}
}

// Over 14 months, an item that 8 instances charge 200 times a second on every route stays below 1 KB, and
// so does one that each time another instance charges, which has seen nothing that it could remove. Most
// of each month is left out.
func TestALedgerStaysBelowAKilobyte(t *testing.T) {
	const months = 14
	for name, tt := range map[string]struct {
		gap       time.Duration
		charges   int     // at the start of each month
		instances int     // 0 for a new one each time
		calls     float64 // the most for each charge
	}{
		"200 a second from 8 instances":        {5 * time.Millisecond, 3000, 8, 1.02},
		"one a minute from ever new instances": {time.Minute, 1000, 0, 1.1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLedgerWorld(t, 0)
				calls, charges, largest := 0, 0, 0
				table := instantTable{w, &calls}
				var instances []*Counters
				for range tt.instances {
					instances = append(instances, table.instance(t))
				}
				for month := range months {
					charged := tt.charges / 10
					if month == 0 || month == months-1 {
						charged = tt.charges
					}
					for n := range charged {
						time.Sleep(tt.gap)
						inst := table.instance(t)
						if tt.instances > 0 {
							inst = instances[n/3%tt.instances]
						}
						group, costs := ledgerCosts(n)
						if _, err := inst.Charge(t.Context(), ratelimit.Key{Identity: "key:7m3kq2xw9abc", Group: group, Window: ratelimit.WindowAt(time.Now())}, costs); err != nil {
							t.Fatal(err)
						}
						charges++
						largest = max(largest, w.size("key:7m3kq2xw9abc#"+string(group)))
					}
					time.Sleep(31*24*time.Hour - time.Duration(charged)*tt.gap)
				}
				t.Logf("%d charges took %d calls; the item had at most %d bytes", charges, calls, largest)
				if per := float64(calls) / float64(charges); largest >= 1024 || per > tt.calls {
					t.Errorf("the item has %d bytes, and a charge took %.3f calls, want at most %v", largest, per, tt.calls)
				}
				kept := 0
				for attribute := range w.items["key:7m3kq2xw9abc#import"] {
					if _, p, _, ok := parseLedgerName(attribute); ok && p == ratelimit.Month {
						kept++
					}
				}
				if kept != ratelimit.KeptMonths {
					t.Errorf("%d months are kept", kept)
				}
			})
		})
	}
}
