package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// TestSimulation runs this many seeds for each failure mode, unless the environment variable
// SIMULATION_SEEDS sets another number. SIMULATION_SEED runs a single seed:
//
//	SIMULATION_SEED=4711 go test -run TestSimulation/closed ./pkg/ratelimit
const (
	simulatedSeeds     = 10_000
	simulatedSeedsRace = 300 // with -race or -short
)

// One seed in 200 allows at least this many instances. All other seeds allow at most 40.
const crowd = 1000

// TestSimulation runs many Limiters over one store. The network between them is slow, loses
// requests and responses, and refuses connections. Instances start, crash and have wrong
// clocks. It runs in a synctest bubble, in which latencies and timeouts take no real time.
//
// The test keeps ledgers of the counters and checks that:
//
//   - A request is charged in the window that its instance's clock shows. If the store
//     refuses it after that window has ended, it is charged again in the new window.
//     The store is not called if the instance knows that the request does not fit.
//   - Acknowledged costs never exceed the limit of a counter. If the limits of an
//     identity change, the highest limit with which the counter was charged applies.
//   - A request is counted by its API key if the key is valid, the instance knows a row
//     of the key, and the address is not blocked. Otherwise, its address is counted.
//   - A refused request did not fit at the time of the decision, and changes no counter.
//     An export that Precheck refused did not fit with the records that it asked for.
//     The decision shows the counters that the instance received from the store.
//   - A blocked identity is always refused and never charged. An unlimited identity is
//     charged and never refused. An observed identity is never refused, and its
//     requests beyond the limits are not counted.
//   - If a charge gets no response and there is no fallback, ActionUnlimited and
//     ActionObserve allow the request, and ActionLimit refuses it. A fallback admits
//     the request if the fallback's own count stays within the limit.
//
// At the end, each counter must equal the sum of the acknowledged costs and of the costs that
// the store applied without the client learning of it.
func TestSimulation(t *testing.T) {
	first, n := seeds(t)
	for _, mode := range []string{"closed", "open"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var total tally
			for seed := first; seed < first+n; seed++ {
				total.add(simulate(t, seed, mode == "open"))
				if t.Failed() {
					t.Fatalf("run only this seed: SIMULATION_SEED=%d go test -run TestSimulation/%s ./pkg/ratelimit", seed, mode)
				}
			}
			t.Logf("%d seeds: %+v", n, total)
			if n > 1 {
				total.checkAllHappened(t, mode == "open")
			}
		})
	}
}

func simulate(t *testing.T, seed uint64, open bool) (happened tally) {
	defer func() {
		if v := recover(); v != nil {
			// For example, synctest.Test panics if a request never ends.
			panic(fmt.Sprintf("seed %d: %v", seed, v))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, open)
		w.run()
		happened = w.tally
	})
	return happened
}

func seeds(t *testing.T) (first, n uint64) {
	number := func(name string) (uint64, bool) {
		s, set := os.LookupEnv(name)
		if !set {
			return 0, false
		}
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v, true
	}
	if seed, set := number("SIMULATION_SEED"); set {
		return seed, 1
	}
	if n, set := number("SIMULATION_SEEDS"); set {
		return 0, n
	}
	if testing.Short() || raceEnabled() {
		return 0, simulatedSeedsRace
	}
	return 0, simulatedSeeds
}

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// tally counts events by kind, so that the test fails if some kind never happened.
type tally struct {
	instances, crashes, clocksSet                     int
	acknowledged, refused, local, prechecked          int
	connectionsRefused, lostBefore, lostAfter, failed int // charges without a response, by reason
	late                                              int // charges applied after the caller gave up
	degradedAllowed, degradedRefused                  int
	rows, blocked, unlimited, observed                int
	byKey, forged, behindBlock                        int // requests whose key has a row: counted by that key, sent with a forged key, sent from a blocked address
	uncounted                                         int // allowed although the store did not respond
	repeated                                          int // refused, then charged again in the next window
	jumped                                            int // decided after the clock had jumped away from the window of the charge
}

func (a *tally) add(b tally) {
	a.instances += b.instances
	a.crashes += b.crashes
	a.clocksSet += b.clocksSet
	a.acknowledged += b.acknowledged
	a.refused += b.refused
	a.local += b.local
	a.prechecked += b.prechecked
	a.connectionsRefused += b.connectionsRefused
	a.lostBefore += b.lostBefore
	a.lostAfter += b.lostAfter
	a.failed += b.failed
	a.late += b.late
	a.degradedAllowed += b.degradedAllowed
	a.degradedRefused += b.degradedRefused
	a.rows += b.rows
	a.blocked += b.blocked
	a.unlimited += b.unlimited
	a.observed += b.observed
	a.byKey += b.byKey
	a.forged += b.forged
	a.behindBlock += b.behindBlock
	a.uncounted += b.uncounted
	a.repeated += b.repeated
	a.jumped += b.jumped
}

func (a *tally) checkAllHappened(t *testing.T, open bool) {
	for _, n := range []int{a.instances, a.crashes, a.clocksSet, a.acknowledged, a.refused, a.local, a.prechecked,
		a.connectionsRefused, a.lostBefore, a.lostAfter, a.failed, a.late,
		a.rows, a.byKey, a.forged, a.behindBlock, a.blocked, a.unlimited, a.observed, a.repeated, a.jumped} {
		if n == 0 {
			t.Errorf("something never happened: %+v", *a)
		}
	}
	if happened := a.degradedAllowed > 0 && a.degradedRefused > 0; happened != open {
		t.Errorf("decisions by the fallback: %+v", *a)
	}
}

type counterID struct {
	key  ratelimit.Key
	name string
}

type ledger map[counterID]int64

func (l ledger) add(key ratelimit.Key, rules []rule) {
	for _, r := range rules {
		l[counterID{key, r.counter}] += r.cost
	}
}

// full returns the names of the rules whose limits the costs would exceed.
func (l ledger) full(key ratelimit.Key, rules []rule) (names []string) {
	for _, r := range rules {
		if r.cost > 0 && l[counterID{key, r.counter}] > r.limit-r.cost {
			names = append(names, r.name)
		}
	}
	return names
}

// rule is one limit on a request, and the cost of the request under that limit. The simulation
// derives both from the specification, without the code under test.
type rule struct {
	name, counter string
	cost, limit   int64
}

// world is one simulated service. mu guards the fields below it.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand // used only by the goroutine that runs the seed
	open bool       // whether instances have a fallback

	store      *memory.Counters
	limits     ratelimit.Limits
	overriding bool // whether rows change the limits of identities
	clients    []client
	keys       []string      // ids of API keys
	timeout    time.Duration // of a call to the store
	skewed     bool          // whether clocks are off by up to a second
	concurrent bool          // whether an instance serves many requests concurrently, like a server, or one at a time, like a Lambda function
	most       int           // maximum number of instances
	requests   int
	gap        time.Duration // mean time between requests
	crashes    float64       // probability of a crash before each request
	faults     faults
	outage     struct{ from, to time.Time } // period in which every connection is refused

	mu        sync.Mutex
	instances []*instance // only running instances
	calls     []*call
	applied   ledger // costs that the store added
	highest   ledger // highest limit with which each counter was charged
	acked     ledger // costs that were admitted and acknowledged to the client
	tally     tally
}

type client struct {
	address  netip.Prefix
	identity string // by the specification
}

type faults struct {
	refuse, loseBefore, loseAfter, fail, crash, slow float64       // probabilities
	slowest                                          time.Duration // longest time until a charge reaches the store
}

// instance is one process with a Limiter and a clock of its own.
type instance struct {
	limiter *ratelimit.Limiter
	ctx     context.Context // done when the instance crashes
	die     context.CancelFunc

	// Guarded by world.mu.
	skew     time.Duration               // how far the instance's clock is ahead; may be negative
	rows     map[string]ratelimit.Limits // by identity, as last read
	table    *ratelimit.Rows             // built from rows
	busy     int                         // requests in progress
	fallback ledger                      // costs that the fallback admitted
	known    knowledge
}

// knowledge is what an instance has learned from the store. The instance must not call the store
// for a request that, according to this knowledge, does not fit.
type knowledge struct {
	window  ratelimit.Window // window of the counters below; the instance may forget other windows
	used    ledger
	refused map[counterID]bool // counters that caused a refusal
}

type call struct {
	inst   *instance
	client client
	keyID  string // id of the key in the token; "" for none
	valid  bool   // whether the token has the key's secret
	req    ratelimit.Request
	class  ratelimit.Class
	route  string
	rng    *rand.Rand

	limits ratelimit.Limits // as the instance knows them when the request begins
	rules  []rule

	charged   bool          // the store was called
	attempts  int           // calls to the store
	key       ratelimit.Key // of the last call to the store
	applied   bool          // the store added the costs
	responded bool          // the Limiter received the result
	result    ratelimit.Result
	acked     bool
}

// contextKey is the context key for the *call that a Limiter is charging.
type contextKey struct{}

var routes = []struct {
	name  string
	class ratelimit.Class
}{
	{"list-entity", ratelimit.Export}, {"list-entity", ratelimit.Export}, {"list-event", ratelimit.Export}, {"get-entity", ratelimit.Export},
	{"create-entity", ratelimit.Import}, {"create-event", ratelimit.Import}, {"create-event", ratelimit.Import}, {"usage", ratelimit.General}, {"openapi", ratelimit.General},
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// between returns a random duration in [from, to), exact to the nanosecond, so that two events
// rarely coincide.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

func newWorld(t *testing.T, seed uint64, open bool) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		t: t, seed: seed, rng: rng, open: open,
		store: memory.NewCounters(), applied: make(ledger), highest: make(ledger), acked: make(ledger),
		limits: ratelimit.Limits{
			Records:  pick[int64](rng, 0, 1, 5, 50, 100, 200, 500),
			Imports:  pick[int64](rng, 0, 1, 3, 10, 50),
			Requests: pick[int64](rng, 0, 2, 5, 20, 200),
		},
		timeout:    pick(rng, 50*time.Millisecond, 300*time.Millisecond, time.Second, 2*time.Second),
		overriding: rng.IntN(2) == 0,
		skewed:     rng.IntN(3) == 0,
		concurrent: rng.IntN(2) == 0,
		most:       1 + rng.IntN(pick(rng, 1, 3, 10, 40)),
		requests:   30 + rng.IntN(200),
	}
	if rng.IntN(200) == 0 {
		w.most = crowd + rng.IntN(3000)
		w.requests = w.most + rng.IntN(2000)
		w.concurrent = false
	}
	w.gap = between(rng, time.Millisecond, 3*time.Second) / time.Duration(w.requests)
	for _, of := range []struct{ address, identity string }{
		{"192.0.2.1", "192.0.2.1"}, {"::ffff:192.0.2.2", "192.0.2.2"}, {"2001:db8:1:2:3::4", "2001:db8:1:2::/64"}, {"2001:db8:1:3::1", "2001:db8:1:3::/64"},
	}[:1+rng.IntN(4)] {
		w.clients = append(w.clients, client{address(t, of.address), of.identity})
	}
	w.keys = []string{"gold", "silver"}[:rng.IntN(3)]
	if rng.IntN(5) > 0 { // one world in five has no faults
		bad := pick(rng, 0.01, 0.05, 0.3)
		w.faults = faults{refuse: rng.Float64() * bad, loseBefore: rng.Float64() * bad, loseAfter: rng.Float64() * bad,
			fail: rng.Float64() * bad, crash: rng.Float64() * bad / 4, slow: rng.Float64() * bad}
		w.crashes = pick(rng, 0, 0.005, 0.05)
		if rng.IntN(3) == 0 {
			w.outage.from = time.Now().Add(between(rng, 0, time.Second))
			w.outage.to = w.outage.from.Add(between(rng, 0, time.Second))
		}
	}
	// The in-memory store keeps the newest window and the three before it. A slower charge could
	// find its window dropped.
	w.faults.slowest = 2400 * time.Millisecond
	if w.skewed {
		w.faults.slowest = 900 * time.Millisecond
	}
	return w
}

// fail reports only the first error, because later errors usually follow from it.
func (w *world) fail(format string, args ...any) {
	if !w.t.Failed() {
		w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
	}
}

func (w *world) run() {
	defer func() {
		for _, inst := range w.instances {
			inst.die()
		}
	}()
	var under sync.WaitGroup
	for i := range w.requests {
		time.Sleep(between(w.rng, 1, 2*w.gap))
		w.mu.Lock()
		if len(w.instances) > 0 && w.rng.Float64() < w.crashes {
			w.crash(pick(w.rng, w.instances...))
		}
		if len(w.instances) > 0 && w.skewed && w.rng.IntN(100) == 0 {
			pick(w.rng, w.instances...).skew = w.skew() // the clock is set forward or back
			w.tally.clocksSet++
		}
		if len(w.instances) > 0 && w.overriding && w.rng.IntN(15) == 0 {
			w.setRow(pick(w.rng, w.instances...))
		}
		inst := w.instance()
		w.mu.Unlock()
		if inst == nil {
			continue // all instances are busy
		}
		route := pick(w.rng, routes...)
		c := &call{inst: inst, rng: rand.New(rand.NewPCG(w.seed, uint64(i)+1)), client: pick(w.rng, w.clients...), req: ratelimit.Request{
			Route: ratelimit.Route{Name: route.name, Class: route.class},
		}, class: route.class, route: route.name}
		if len(w.keys) > 0 && w.rng.IntN(4) > 0 {
			c.keyID, c.valid = pick(w.rng, w.keys...), w.rng.IntN(5) > 0
		}
		w.calls = append(w.calls, c)
		under.Go(func() { w.serve(c) })
	}
	under.Wait()
	time.Sleep(w.faults.slowest) // until the last late charge has arrived
	w.audit()
}

// instance returns the instance for the next request, and may start a new one. It returns nil
// if w.most instances are busy. The caller holds w.mu.
func (w *world) instance() *instance {
	if w.concurrent && len(w.instances) > 0 && (len(w.instances) == w.most || w.rng.IntN(4) > 0) {
		inst := pick(w.rng, w.instances...)
		inst.busy++
		return inst
	}
	if !w.concurrent && (len(w.instances) == w.most || w.most < crowd && w.rng.IntN(8) > 0) {
		from := w.rng.IntN(len(w.instances) + 1)
		for i := range w.instances {
			if inst := w.instances[(from+i)%len(w.instances)]; inst.busy == 0 {
				inst.busy++
				return inst
			}
		}
	}
	if len(w.instances) == w.most {
		return nil
	}
	inst := &instance{busy: 1, fallback: make(ledger), skew: w.skew(), rows: make(map[string]ratelimit.Limits)}
	inst.ctx, inst.die = context.WithCancel(context.Background())
	cfg := ratelimit.Config{
		Limits: w.limits,
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return time.Now().Add(inst.skew)
		},
	}
	if w.open {
		cfg.Fallback = memory.NewCounters()
	}
	var err error
	if inst.limiter, err = ratelimit.New(network{w}, cfg); err != nil {
		w.fail("%v", err)
	}
	w.instances = append(w.instances, inst)
	w.tally.instances++
	return inst
}

func (w *world) skew() time.Duration {
	if !w.skewed {
		return 0
	}
	return between(w.rng, -time.Second, time.Second+1)
}

// setRow changes or removes the row of an identity in one instance, as if no other instance had
// read the change yet. The caller holds w.mu.
func (w *world) setRow(inst *instance) {
	w.tally.rows++
	var identities []string
	for _, c := range w.clients {
		identities = append(identities, c.identity)
	}
	for _, id := range w.keys {
		identities = append(identities, "key:"+id)
	}
	identity := pick(w.rng, identities...)
	limits := ratelimit.Limits{
		Records:  pick[int64](w.rng, 0, 1, 20, 100, 1000),
		Imports:  pick[int64](w.rng, 0, 2, 7, 900),
		Requests: pick[int64](w.rng, 0, 1, 4, 10, 900),
		Action: pick(w.rng, "", "", ratelimit.ActionLimit, ratelimit.ActionLimit,
			ratelimit.ActionBlock, ratelimit.ActionUnlimited, ratelimit.ActionObserve),
	}
	if limits.Action == ratelimit.ActionBlock {
		limits = ratelimit.Limits{Action: limits.Action}
	}
	inst.rows[identity] = limits
	if w.rng.IntN(8) == 0 {
		delete(inst.rows, identity)
	}
	var rows []ratelimit.Row
	for identity, limits := range inst.rows {
		r, err := ratelimit.ParseRowName(identity, ratelimit.DefaultIPv6Prefix)
		r.Action, r.Records, r.Imports, r.Requests = cmp.Or(limits.Action, ratelimit.ActionLimit), limits.Records, limits.Imports, limits.Requests
		if rows = append(rows, r); err != nil {
			w.fail("%v", err)
		}
	}
	var err error
	if inst.table, err = ratelimit.NewRows(rows); err != nil {
		w.fail("%v", err)
	}
}

// identify sets the subject of a request, as the service does, and checks it against the rows that
// the instance knows.
func (w *world) identify(c *call) {
	w.mu.Lock()
	table, rows := c.inst.table, maps.Clone(c.inst.rows)
	w.mu.Unlock()
	of := ratelimit.Caller{Address: c.client.address}
	if c.valid { // only then does the service know the key
		of.KeyID = c.keyID
	}
	c.req.Subject = c.inst.limiter.Subject(table, of)
	w.mu.Lock()
	defer w.mu.Unlock()
	want := c.client.identity
	if _, hasRow := rows["key:"+c.keyID]; hasRow {
		switch {
		case rows[want].Action == ratelimit.ActionBlock:
			w.tally.behindBlock++
		case !c.valid:
			w.tally.forged++
		default:
			w.tally.byKey++
			want = "key:" + c.keyID
		}
	}
	c.limits = rows[want].Or(w.limits).Or(ratelimit.Limits{Records: 200, Imports: 200, Requests: 200, Action: ratelimit.ActionLimit})
	if want := (ratelimit.Subject{Identity: want, Limits: c.limits}); c.req.Subject != want {
		w.fail("a request from %s with the key %q (%v) is counted as %+v, want %+v; the rows are %v", c.client.identity, c.keyID, c.valid, c.req.Subject, want, rows)
	}
}

// crash ends an instance. The caller holds w.mu.
func (w *world) crash(inst *instance) {
	i := slices.Index(w.instances, inst)
	if i < 0 {
		return // already crashed
	}
	w.instances = slices.Delete(w.instances, i, i+1)
	w.tally.crashes++
	inst.die()
}

// rulesOf returns the rules for c. The number of records matters only if c is an export.
func (w *world) rulesOf(c *call, records int64) []rule {
	requests := rule{"requests", map[string]string{
		"list-entity": "r_list_entity", "list-event": "r_list_event", "get-entity": "r_get_entity",
		"create-entity": "r_create_entity", "create-event": "r_create_event", "usage": "r_usage", "openapi": "r_openapi",
	}[c.route], 1, c.limits.Requests}
	switch c.class {
	case ratelimit.Export:
		return []rule{{"records", "records", records, c.limits.Records}, requests}
	case ratelimit.Import:
		return []rule{{"imports", "imports", 1, c.limits.Imports}, requests}
	}
	return []rule{requests}
}

// chargedRules returns the rules that the store must apply. ActionUnlimited removes their limits.
func (c *call) chargedRules() []rule {
	rules := slices.Clone(c.rules)
	for i := range rules {
		if c.limits.Action == ratelimit.ActionUnlimited {
			rules[i].limit = ratelimit.NoLimit
		}
	}
	return rules
}

// refused reports whether the store refused the latest charge.
func (c *call) refused() bool { return c.responded && !c.result.Admitted }

// keyNow returns the key under which a Limiter must charge c now. The caller holds w.mu.
func (w *world) keyNow(c *call) ratelimit.Key {
	group := ratelimit.Group(c.class)
	if c.class == ratelimit.General {
		group = ratelimit.Group(c.route)
	}
	return ratelimit.Key{Identity: c.req.Subject.Identity, Group: group, Window: ratelimit.WindowAt(time.Now().Add(c.inst.skew))}
}

// serve handles a request as a Lambda function does. An export that Precheck does not refuse is
// read, then charged for the records found. An import is charged before it writes.
func (w *world) serve(c *call) {
	defer func() {
		w.mu.Lock()
		c.inst.busy--
		w.mu.Unlock()
	}()
	w.identify(c)
	found := int64(0)
	if c.class == ratelimit.Export {
		asked := pick(c.rng, 1, 7, 50, 200, 1+c.rng.Int64N(200))
		if c.route == "get-entity" {
			asked = 1
		}
		c.req.Records = asked
		d, refused := c.inst.limiter.Precheck(c.req)
		if w.judgePrecheck(c, d, refused); refused {
			return
		}
		if sleep(c.inst.ctx, between(c.rng, 1, 20*time.Millisecond)) != nil { // time to read the records
			return
		}
		found = pick(c.rng, asked, asked, c.rng.Int64N(asked+1), 0)
	}
	c.req.Records = found
	w.mu.Lock()
	began := w.keyNow(c).Window
	w.mu.Unlock()
	c.rules = w.rulesOf(c, found)
	d, err := c.inst.limiter.Charge(context.WithValue(c.inst.ctx, contextKey{}, c), c.req)
	w.judge(c, d, err, began)

	// Simulate doing the work and sending the response.
	if d.Allowed && sleep(c.inst.ctx, between(c.rng, 1, 20*time.Millisecond)) == nil {
		w.acknowledge(c, d)
	}
}

// network is a Store that forwards charges to w.store over a simulated network. Like a real
// store, it limits how long a call takes.
type network struct{ w *world }

var (
	errConnection = errors.New("connection refused")
	errBroken     = errors.New("connection reset")
	errInternal   = errors.New("internal server error")
)

// A Charge that fails does not say whether the charge was applied.
func (n network) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	w, c := n.w, ctx.Value(contextKey{}).(*call)
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.mu.Lock()
	if c.charged && (!c.refused() || key.Window == c.key.Window) {
		w.fail("%+v was charged again", c.req)
	}
	if want := w.keyNow(c); key != want {
		w.fail("%+v is charged under %+v, want %+v", c.req, key, want)
	}
	if c.charged {
		w.tally.repeated++
	}
	if k := &c.inst.known; k.window == key.Window && k.excludes(key, c.chargedRules()) {
		w.fail("the store is called for %+v in %+v, although the instance knows that it does not fit: %+v", c.req, key, k.used)
	}
	c.charged, c.responded, c.key = true, false, key
	c.attempts++
	now := time.Now()
	connected := (now.Before(w.outage.from) || !now.Before(w.outage.to)) && c.rng.Float64() >= w.faults.refuse
	w.mu.Unlock()

	there, back := between(c.rng, 1, 20*time.Millisecond), between(c.rng, 1, 20*time.Millisecond)
	if c.rng.Float64() < w.faults.slow {
		there = between(c.rng, 1, w.faults.slowest)
	}
	if c.rng.Float64() < w.faults.slow {
		back = between(c.rng, 1, 3*time.Second)
	}
	lost := func(count *int, err error) (ratelimit.Result, error) {
		w.mu.Lock()
		*count++
		w.mu.Unlock()
		return ratelimit.Result{}, err
	}
	if !connected {
		sleep(ctx, between(c.rng, 1, time.Millisecond)) //nolint:errcheck // Charge fails in any case
		return lost(&w.tally.connectionsRefused, errConnection)
	}
	if c.rng.Float64() < w.faults.loseBefore {
		if c.rng.IntN(2) == 0 {
			<-ctx.Done() // neither a response nor an error arrives
			return lost(&w.tally.lostBefore, ctx.Err())
		}
		sleep(ctx, there) //nolint:errcheck // Charge fails in any case
		return lost(&w.tally.lostBefore, errBroken)
	}
	sent := time.Now()
	if sleep(ctx, there) != nil {
		// The caller has given up, but the charge still reaches the store.
		time.AfterFunc(there-time.Since(sent), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tally.late++
			w.apply(c, key, costs)
		})
		return ratelimit.Result{}, ctx.Err()
	}
	if c.rng.Float64() < w.faults.fail {
		sleep(ctx, back) //nolint:errcheck // Charge fails in any case
		return lost(&w.tally.failed, errInternal)
	}
	w.mu.Lock()
	result := w.apply(c, key, costs)
	if c.rng.Float64() < w.faults.crash {
		w.crash(c.inst)
	}
	w.mu.Unlock()
	if c.rng.Float64() < w.faults.loseAfter {
		if c.rng.IntN(2) == 0 {
			<-ctx.Done()
			return lost(&w.tally.lostAfter, ctx.Err())
		}
		sleep(ctx, back) //nolint:errcheck // Charge fails in any case
		return lost(&w.tally.lostAfter, errBroken)
	}
	if err := sleep(ctx, back); err != nil {
		return lost(&w.tally.lostAfter, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.responded, c.result = true, result
	return result, nil
}

// apply passes a charge on to w.store and checks the result against the ledgers. The caller
// holds w.mu.
func (w *world) apply(c *call, key ratelimit.Key, costs []ratelimit.Cost) ratelimit.Result {
	rules := c.chargedRules()
	all := costs
	costs = costs[:len(rules)]
	w.checkSums(key, costs, all[len(rules):])
	same := slices.EqualFunc(costs, rules, func(got ratelimit.Cost, want rule) bool {
		return got == ratelimit.Cost{Rule: ratelimit.Rule{Name: want.name, Counter: want.counter, Limit: want.limit}, Amount: want.cost}
	})
	if !same {
		w.fail("charged %+v, want %+v", costs, rules)
		return ratelimit.Result{Used: make([]int64, len(costs))}
	}
	full := w.applied.full(key, rules)
	result, err := w.store.Charge(context.Background(), key, all)
	if err != nil || result.Admitted != (full == nil) {
		w.fail("result %+v, error %v, violated rules %v, costs %+v", result, err, full, costs)
	}
	if result.Admitted {
		c.applied = true
		w.applied.add(key, rules)
		for _, r := range rules {
			id := counterID{key, r.counter}
			w.highest[id] = max(w.highest[id], r.limit)
		}
	}
	w.checkStored(key, c.rules)
	return result
}

// checkSums checks that the costs of a key, but not those of an address, are also added to the day and
// the month.
func (w *world) checkSums(key ratelimit.Key, costs, sums []ratelimit.Cost) {
	var want []ratelimit.Cost
	for _, c := range costs {
		if strings.HasPrefix(key.Identity, "key:") && c.Rule.Name != "requests" {
			c.Rule.Limit = ratelimit.NoLimit
			for _, p := range []ratelimit.Period{ratelimit.Day, ratelimit.Month} {
				c.Rule.Period = p
				want = append(want, c)
			}
		}
	}
	if !slices.Equal(sums, want) {
		w.fail("%s: the sums are %+v, want %+v", key.Identity, sums, want)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
