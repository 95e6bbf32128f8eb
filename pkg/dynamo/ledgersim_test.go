package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// simulatedLedgers is how many seeds TestLedgerSimulation runs, unless LEDGER_SEEDS sets another
// number. LEDGER_SEED runs a single seed.
const simulatedLedgers = 100

// TestLedgerSimulation charges the ledgers of two keys from many instances, with the limits of plans that
// change. Instances have wrong clocks that jump, start cold, lose responses, and are frozen for days
// between reading their clock and sending. The table interprets the expressions of each update.
//
// In a third of the seeds, all plans have the same quotas by day and month, and in another third each has
// its own or none.
//
// It checks that no second, day or month is charged above the highest of its limits, and that sums are
// exact; that a refusal is right, also one that no call was needed for; that a counter that was removed is
// not charged again; that the floor never goes back, and never beyond DynamoDB's time.
func TestLedgerSimulation(t *testing.T) {
	first, n := uint64(0), uint64(simulatedLedgers)
	if text, ok := os.LookupEnv("LEDGER_SEEDS"); ok {
		n, _ = strconv.ParseUint(text, 10, 64)
	}
	if text, ok := os.LookupEnv("LEDGER_SEED"); ok {
		first, _ = strconv.ParseUint(text, 10, 64)
		n = 1
	}
	total := make(map[string]int)
	for seed := first; seed < first+n; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newLedgerWorld(t, seed)
			w.run()
			for what, k := range w.tally {
				if what == "largest item" {
					total[what] = max(total[what], k)
				} else {
					total[what] += k
				}
			}
		})
		if t.Failed() {
			t.Fatalf("run only this seed: LEDGER_SEED=%d go test -run TestLedgerSimulation ./pkg/dynamo", seed)
		}
	}
	t.Logf("%d seeds: %v", n, total)
	if n < simulatedLedgers {
		return
	}
	for _, what := range []string{"admitted", "refused", "full windows", "full quotas", "unread", "late", "lost", "jumps", "cold", "removed", "floor ahead", "plan changes", "days", "months"} {
		if total[what] == 0 {
			t.Errorf("%s: never happened", what)
		}
	}
}

type ledgerWorld struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	exact  bool          // equal clocks and no lost, late or frozen request
	skew   time.Duration // how far clocks are off at most
	gap    time.Duration // mean time between requests
	pauses time.Duration // longest of the rare pauses
	most   int           // instances
	faults float64
	quotas ratelimit.Quotas // of all plans; zero if each has its own or none
	varied bool             // whether each plan has its own

	mu        sync.Mutex
	net       *rand.Rand    // of the network; rng is the test's
	ahead     time.Duration // of the table's clock
	wrong     bool          // whether that clock has ever been ahead
	items     map[string]map[string]int64
	applied   map[string]int64 // by item and attribute: all that was ever added
	highest   map[string]int64 // the highest limit with which it was charged
	removed   map[string]bool
	instances []*ledgerInstance
	limits    ratelimit.Limits
	tally     map[string]int
	acked     map[string]int64 // by item and attribute, as instances were told
}

type ledgerInstance struct {
	counters *Counters
	limiter  *ratelimit.Limiter
	ahead    time.Duration
	jumps    int              // of its clock
	learned  bool             // whether it has compared its clock with the table's since the last jump
	flying   int              // charges that have not ended
	stale    int              // of these, those that began before the last jump, and may compare with the old clock
	limits   ratelimit.Limits // as it knows the plan
}

func newLedgerWorld(t *testing.T, seed uint64) *ledgerWorld {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &ledgerWorld{
		t: t, seed: seed, rng: rng, net: rand.New(rand.NewPCG(seed, 2)), items: make(map[string]map[string]int64), applied: make(map[string]int64), highest: make(map[string]int64),
		removed: make(map[string]bool), tally: make(map[string]int), acked: make(map[string]int64), most: 1 + rng.IntN(8),
		gap: []time.Duration{2 * time.Millisecond, 30 * time.Millisecond, 500 * time.Millisecond, time.Minute}[rng.IntN(4)],
	}
	w.pauses = []time.Duration{time.Second, 10 * time.Second, 26 * time.Hour, 40 * 24 * time.Hour}[rng.IntN(4)]
	if w.exact = rng.IntN(3) == 0; !w.exact {
		w.skew = []time.Duration{0, 2 * time.Second, 2 * time.Second, 10 * time.Second, 26 * time.Hour}[rng.IntN(5)]
		w.faults = []float64{0, 0.02, 0.2}[rng.IntN(3)]
	}
	switch rng.IntN(3) {
	case 0:
		w.quotas = w.someQuotas()
	case 1:
		w.varied = true
	}
	w.limits = w.plan()
	return w
}

func (w *ledgerWorld) plan() ratelimit.Limits {
	l := ratelimit.Limits{Records: 1 + w.rng.Int64N(60), Imports: 1 + w.rng.Int64N(30), Requests: 1 + w.rng.Int64N(40), Quotas: w.quotas, Action: ratelimit.ActionLimit}
	if w.varied {
		l.Quotas = w.someQuotas()
	}
	return l
}

// someQuotas leaves out each quota with a probability of a third.
func (w *ledgerWorld) someQuotas() ratelimit.Quotas {
	one := func(most int64) int64 {
		if w.rng.IntN(3) == 0 {
			return 0
		}
		return 1 + w.rng.Int64N(most)
	}
	return ratelimit.Quotas{RecordsPerDay: one(100), RecordsPerMonth: one(200), ImportsPerDay: one(20), ImportsPerMonth: one(40)}
}

// untilTheEnd returns the time until just before a day or a month ends.
func (w *ledgerWorld) untilTheEnd() time.Duration {
	now := time.Now()
	end := time.Unix(int64([]ratelimit.Period{ratelimit.Day, ratelimit.Month}[w.rng.IntN(2)].End(ratelimit.WindowAt(now))), 0)
	return end.Sub(now) - time.Duration(w.rng.Int64N(int64(4*w.gap)))
}

func (w *ledgerWorld) fail(format string, args ...any) {
	if !w.t.Failed() {
		w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
	}
}

func (w *ledgerWorld) start() *ledgerInstance {
	inst := &ledgerInstance{ahead: w.clock(), limits: w.limits}
	now := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(inst.ahead)
	}
	var err error
	if inst.counters, err = NewCounters(simulatedTable{w}, "t"); err != nil {
		w.fail("%v", err)
	}
	inst.counters.now, inst.counters.dateOf = now, simulatedDate
	if inst.limiter, err = ratelimit.New(inst.counters, ratelimit.Config{Now: now}); err != nil {
		w.fail("%v", err)
	}
	w.tally["cold"]++
	return inst
}

// clock returns how far a clock is ahead. With a large skew, only one clock in four is off.
func (w *ledgerWorld) clock() time.Duration {
	if w.skew == 0 || w.skew > 2*time.Second && w.rng.IntN(4) > 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(2*w.skew))) - w.skew
}

var simulatedRoutes = []ratelimit.Route{
	{Name: "list-entity", Class: ratelimit.Export}, {Name: "get-entity", Class: ratelimit.Export}, {Name: "list-event", Class: ratelimit.Export},
	{Name: "create-event", Class: ratelimit.Import}, {Name: "create-entity", Class: ratelimit.Import}, {Name: "upsert-entities", Class: ratelimit.Import}, {Name: "usage", Class: ratelimit.General},
}

func (w *ledgerWorld) run() {
	var under sync.WaitGroup
	for range 100 + w.rng.IntN(150) {
		time.Sleep(1 + time.Duration(w.rng.Int64N(int64(2*w.gap))))
		if w.rng.IntN(40) == 0 {
			time.Sleep(time.Duration(w.rng.Int64N(int64(w.pauses))))
		}
		if w.rng.IntN(60) == 0 {
			time.Sleep(w.untilTheEnd())
		}
		w.mu.Lock()
		if w.rng.IntN(20) == 0 {
			w.limits = w.plan()
			w.tally["plan changes"]++
		}
		if len(w.instances) > 0 && w.rng.IntN(10) == 0 {
			w.instances = slices.Delete(w.instances, 0, 1)
		}
		if len(w.instances) == 0 || len(w.instances) < w.most && w.rng.IntN(3) == 0 {
			w.instances = append(w.instances, w.start())
		}
		inst := w.instances[w.rng.IntN(len(w.instances))]
		if w.exact || w.rng.IntN(10) == 0 {
			inst.limits = w.limits
		}
		if w.skew > 0 && w.rng.IntN(30) == 0 {
			inst.ahead = w.clock()
			inst.jumps++
			inst.learned, inst.stale = false, inst.flying
			w.tally["jumps"]++
		}
		limits := inst.limits
		w.mu.Unlock()
		r := ratelimit.Request{
			Subject: ratelimit.Subject{Identity: "key:" + []string{"aaaa", "bbbb"}[w.rng.IntN(2)], Limits: limits},
			Route:   simulatedRoutes[w.rng.IntN(len(simulatedRoutes))], Records: w.rng.Int64N(12),
		}
		under.Go(func() { w.charge(inst, r) })
	}
	under.Wait()
	time.Sleep(80 * 24 * time.Hour) // until the last frozen request has arrived
	w.audit()
}

func (w *ledgerWorld) charge(inst *ledgerInstance, r ratelimit.Request) {
	w.mu.Lock()
	jumps, begun := inst.jumps, time.Now()
	w.mu.Unlock()
	asked := r
	asked.Records += int64(len(r.Route.Name) % 3) // a list may find fewer than it asks for
	if d, refused := inst.limiter.Precheck(asked); refused {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tally["unread"]++
		w.judgeRefusal(r, d)
		if at := time.Now().Unix(); inst.learned && inst.stale == 0 && inst.jumps == jumps && (int64(d.Window) < at-closedAfter || int64(d.Window) > at+closedAfter) {
			w.fail("a clock that can be corrected refuses in window %d at %d", d.Window, at)
		}
		return
	}
	w.mu.Lock()
	inst.flying++
	if inst.jumps != jumps {
		inst.stale++
	}
	w.mu.Unlock()
	d, err := inst.limiter.Charge(context.Background(), r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if inst.flying--; inst.jumps != jumps {
		inst.stale--
	}
	inst.learned = inst.stale == 0 && inst.jumps == jumps && (inst.learned || err == nil && !d.Local && !d.Counts[0].Unknown)
	switch {
	case err == nil && (inst.jumps != jumps || time.Since(begun) > 2*time.Second): // the decision shows the current window, not that of the charge
	case err != nil:
		w.tally["lost"]++
		if w.faults == 0 {
			w.fail("%v", err)
		}
	case d.Allowed:
		w.tally["admitted"]++
		for _, c := range d.Counts {
			id := ledgerPartition(r.Subject.Identity, r.Route.Group()) + " " + ledgerName(c.Rule.Counter, c.Rule.Period, d.Window)
			w.acked[id] += c.Cost
			if c.Cost > 0 && w.acked[id] > max(w.highest[id], c.Rule.Limit) {
				w.fail("%s: %d acknowledged, the highest limit was %d", id, w.acked[id], w.highest[id])
			}
		}
	default:
		w.tally["refused"]++
		w.judgeRefusal(r, d)
	}
}

// judgeRefusal holds because counters only grow: what did not fit does not fit now.
func (w *ledgerWorld) judgeRefusal(r ratelimit.Request, d ratelimit.Decision) {
	full := false
	for _, c := range d.Counts {
		id := ledgerPartition(r.Subject.Identity, r.Route.Group()) + " " + ledgerName(c.Rule.Counter, c.Rule.Period, d.Window)
		full = full || c.Cost > 0 && w.applied[id]+c.Cost > c.Rule.Limit
		if c.Cost == 1 && w.applied[id] == c.Rule.Limit {
			w.tally["full "+map[bool]string{true: "windows", false: "quotas"}[c.Rule.Period == ratelimit.Second]]++
		}
	}
	if !full {
		w.fail("refused although it fits: %+v in window %d, %v", d.Counts, d.Window, w.applied)
	}
}

// simulatedTable is the client of one instance.
type simulatedTable struct{ w *ledgerWorld }

var errLost = errors.New("connection reset")

// dated is a refusal with the Date of the response.
type datedRefusal struct {
	*types.ConditionalCheckFailedException
	at time.Time
}

func (d *datedRefusal) Unwrap() error { return d.ConditionalCheckFailedException }

func simulatedDate(out *dynamodb.UpdateItemOutput, err error) (date time.Time) {
	if refused, ok := errors.AsType[*datedRefusal](err); ok {
		return refused.at
	}
	if err == nil {
		date, _ = time.Parse(time.RFC3339, *out.ConsumedCapacity.TableName)
	}
	return date
}

func (s simulatedTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	w := s.w
	w.mu.Lock()
	there, back := time.Duration(1+w.net.Int64N(int64(15*time.Millisecond))), time.Duration(1+w.net.Int64N(int64(15*time.Millisecond)))
	late, lost := w.net.Float64() < w.faults/2, w.net.Float64() < w.faults
	if late { // the process is frozen before it sends
		there = time.Duration(w.net.Int64N(int64([]time.Duration{3 * time.Second, 20 * time.Second, 30 * time.Hour, 70 * 24 * time.Hour}[w.net.IntN(4)])))
		w.tally["late"]++
	}
	w.mu.Unlock()
	if late && there > time.Second {
		time.AfterFunc(there, func() { w.apply(in) }) //nolint:errcheck // nobody waits for it
		return nil, errLost
	}
	time.Sleep(there)
	out, err := w.apply(in)
	time.Sleep(back)
	if lost {
		return nil, errLost
	}
	return out, err
}

// apply evaluates the condition and the update, as DynamoDB does.
func (w *ledgerWorld) apply(in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now().Add(w.ahead).Truncate(time.Second)
	pk := in.Key["pk"].(*types.AttributeValueMemberS).Value
	item := w.items[pk]
	name := func(alias string) string { return in.ExpressionAttributeNames[strings.Trim(alias, "(), ")] }
	value := func(alias string) int64 {
		n, err := strconv.ParseInt(in.ExpressionAttributeValues[strings.Trim(alias, "(), ")].(*types.AttributeValueMemberN).Value, 10, 64)
		if err != nil {
			w.fail("%v", err)
		}
		return n
	}
	limits := make(map[string]int64)
	for condition := range strings.SplitSeq(*in.ConditionExpression, " AND ") {
		words := strings.Fields(strings.ReplaceAll(condition, "attribute_not_exists", ""))
		left, operator, right := name(words[len(words)-3]), words[len(words)-2], value(words[len(words)-1])
		have, exists := item[left]
		limits[left] = right
		holds := strings.Contains(condition, " OR ") && !exists
		switch operator {
		case "<=":
			holds = holds || exists && have <= right
		case ">=":
			holds = holds || exists && have >= right
		case "=":
			holds = holds || exists && have == right
		}
		if !holds {
			if left == "floor" {
				w.tally["floor ahead"]++
			}
			return nil, &datedRefusal{&types.ConditionalCheckFailedException{Item: attributes(item)}, at}
		}
	}
	after := maps.Clone(item)
	if after == nil {
		after = make(map[string]int64)
	}
	mode := ""
	fields := strings.Fields(strings.ReplaceAll(*in.UpdateExpression, ",", ""))
	for i := 0; i < len(fields); i++ {
		switch field := fields[i]; {
		case field == "SET" || field == "ADD" || field == "REMOVE":
			mode = field
		case mode == "SET":
			after[name(field)] = value(fields[i+2])
			i += 2
		case mode == "ADD":
			w.add(pk, name(field), value(fields[i+1]), limits)
			after[name(field)] += value(fields[i+1])
			i++
		default:
			if _, there := after[name(field)]; there {
				w.tally["removed"]++
				w.removed[pk+" "+name(field)] = true
			}
			delete(after, name(field))
		}
	}
	w.checkItem(pk, item, after, at)
	w.items[pk] = after
	return &dynamodb.UpdateItemOutput{Attributes: attributes(after), ConsumedCapacity: &types.ConsumedCapacity{TableName: aws.String(at.Format(time.RFC3339))}}, nil
}

func (w *ledgerWorld) add(pk, attribute string, amount int64, rooms map[string]int64) {
	id := pk + " " + attribute
	w.applied[id] += amount
	limit := int64(ratelimit.NoLimit)
	if room, ok := rooms[attribute]; ok {
		limit = room + amount
	}
	w.highest[id] = max(w.highest[id], limit)
	if w.applied[id] > w.highest[id] {
		w.fail("%s is charged to %d, the highest limit was %d", id, w.applied[id], w.highest[id])
	}
	code, p, _, _ := parseLedgerName(attribute)
	if p == ratelimit.Second && limit == ratelimit.NoLimit {
		w.fail("%s is charged without a condition", id)
	}
	for _, q := range w.quotas.AllQuotas() {
		if p == q.Period && code == counterCode(q.Counter) && q.Limit > 0 && w.applied[id] > q.Limit {
			w.fail("%s is charged to %d, the quota is %d", id, w.applied[id], q.Limit)
		}
	}
	if w.removed[id] {
		w.fail("%s was removed and is charged again", id)
	}
}

func (w *ledgerWorld) checkItem(pk string, before, after map[string]int64, at time.Time) {
	if !w.wrong && after["floor"] < before["floor"] {
		w.fail("the floor of %s goes back from %d to %d", pk, before["floor"], after["floor"])
	}
	if f := after["floor"]; !w.wrong && f > at.Unix()-closedAfter {
		w.fail("the floor of %s is %d at %d", pk, f, at.Unix())
	}
	size := len("pk") + len(pk) + len("second") + 1
	for name := range after {
		size += len(name) + 12 // no number is larger; see TestALedgerStaysBelowAKilobyte for what it really is
	}
	w.tally["largest item"] = max(w.tally["largest item"], size)
}

func attributes(item map[string]int64) attributeValues {
	all := make(attributeValues, len(item))
	for name, n := range item {
		all[name] = number(n)
	}
	return all
}

// audit compares the sums of days and months with the seconds.
func (w *ledgerWorld) audit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := make(map[string]int64)
	for id, n := range w.applied {
		pk, attribute, _ := strings.Cut(id, " ")
		code, p, second, _ := parseLedgerName(attribute)
		for _, rule := range []string{ratelimit.RuleRecords, ratelimit.RuleImports} {
			if p == ratelimit.Second && code == counterCode(rule) {
				want[pk+" "+ledgerName(rule, ratelimit.Day, second)] += n
				want[pk+" "+ledgerName(rule, ratelimit.Month, second)] += n
			}
		}
	}
	days, months := make(map[ratelimit.Window]bool), make(map[ratelimit.Window]bool)
	for id, n := range want {
		pk, attribute, _ := strings.Cut(id, " ")
		_, p, start, _ := parseLedgerName(attribute)
		if w.applied[id] != n {
			w.fail("%s is %d, the seconds add up to %d", id, w.applied[id], n)
		}
		stored, there := w.items[pk][attribute]
		if there && stored != n || !there && n > 0 && (p == ratelimit.Month || !w.removed[id]) {
			w.fail("%s is stored as %d, %v, want %d", id, stored, there, n)
		}
		if p == ratelimit.Day {
			days[start] = true
		} else {
			months[start] = true
		}
	}
	w.tally["days"] += len(days) - 1
	w.tally["months"] += len(months) - 1
}
