package dynamo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/ratelimit"
)

// The clock of the table, as of DynamoDB Local on a laptop, is ahead for a while. Afterwards the floor is
// set back, and a second has its limit again. No second is charged above it.
func TestAFloorThatAWrongClockHasSetIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, wrong = 3, time.Hour
		w, calls, faults := newLedgerWorld(t, 0), 0, 0
		table := instantTable{w, &calls}
		var instances []*Counters
		for range 3 {
			inst := table.instance(t)
			inst.FloorFault = func(_ context.Context, identity string, was, now ratelimit.Window) {
				if faults++; identity != "key:a" || was-now < ratelimit.Window(wrong/time.Second)-30 || now != ratelimit.WindowAt(time.Now())+restart {
					t.Errorf("%s: %d was set back to %d", identity, was, now)
				}
			}
			instances = append(instances, inst)
		}
		admitted := make(map[ratelimit.Window]int)
		second := func() (n int) {
			for i := range 4 * limit {
				cost := ratelimit.Cost{Rule: ratelimit.Rule{Counter: "imports", Limit: limit}, Amount: 1}
				r, err := instances[i%len(instances)].Charge(t.Context(), ratelimit.Key{Identity: "key:a", Group: "import", Window: ratelimit.WindowAt(time.Now())}, []ratelimit.Cost{cost})
				if err != nil {
					t.Fatal(err)
				}
				if r.Admitted {
					n++
					if admitted[r.Window]++; admitted[r.Window] > limit {
						t.Errorf("%d in the second %d", admitted[r.Window], r.Window)
					}
				}
			}
			time.Sleep(time.Second)
			return n
		}
		for range 20 {
			second()
		}
		w.ahead, w.wrong = wrong, true
		for range 20 {
			second()
		}
		floor := w.items["key:a#import"]["floor"]
		if floor < time.Now().Add(wrong-30*time.Second).Unix() {
			t.Fatalf("the floor is %d at %d", floor, time.Now().Unix())
		}
		w.ahead = 0
		for range restart + 2 {
			second()
		}
		for range 10 {
			if n := second(); n != limit {
				t.Errorf("%d admitted in a second", n)
			}
		}
		if faults < 1 || faults > len(instances) { // each may believe its last response once
			t.Errorf("%d faults were reported", faults)
		}
	})
}
