package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/memstore"
)

// The number of seeds that TestSimulation runs for each failure mode. The
// environment variable SIMULATION_SEEDS changes it; SIMULATION_SEED runs only one
// seed:
//
//	SIMULATION_SEED=4711 go test -run TestSimulation/closed ./pkg/ratelimit
const (
	simulatedSeeds     = 10_000
	simulatedSeedsRace = 300 // with the race detector, or -short
)

// crowd is the lowest number of instances in one of 200 seeds.
const crowd = 1000

// TestSimulation runs many Limiters over one store behind a network that is
// slow, loses requests and responses, and refuses connections, while instances
// start, crash and have wrong clocks. Time is that of a synctest bubble: to the
// Limiter every latency and timeout is real, and here it takes no time.
//
// It keeps accounts of its own and checks for every request:
//
//   - it is charged in the window that its instance's clock shows, and again only
//     if that ended before it was refused; the store is not called for what the
//     instance knows to be exhausted;
//   - what is acknowledged never exceeds a limit, per counter and window: while
//     the limits of an address change, the highest that an instance knew;
//   - what is refused did not fit at the time of the decision (by Precheck: the
//     records it asked for did not fit) and changes no counter; its counters are
//     those that the instance was told;
//   - a blocked address passes nowhere and is not charged; one without limits is
//     charged and never refused; one that is observed is never refused, and what
//     would have been refused is not counted;
//   - a charge whose response is lost never lets the request pass, except, in the
//     mode that stays open, by the instance's own count of at most the limit.
//
// In the end the counters hold what was acknowledged, and what was applied
// without anyone being told, and nothing else.
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

// simulate runs one seed in its own bubble.
func simulate(t *testing.T, seed uint64, open bool) (happened tally) {
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, v)) // such as a request that never ends
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

// raceEnabled reports whether the test was built with -race.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// tally counts what happened, so that a simulation in which nothing happens
// does not pass.
type tally struct {
	instances, crashes, clocksSet                     int
	acknowledged, refused, local, prechecked          int
	connectionsRefused, lostBefore, lostAfter, failed int // charges without a response, by reason
	late                                              int // applied after the caller gave up
	degradedAllowed, degradedRefused                  int
	overrides, blocked, unlimited, observed           int
	uncounted                                         int // passed without a response
	repeated                                          int // refused, and charged again in the next window
	jumped                                            int // decided when the clock had left the window
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
	a.overrides += b.overrides
	a.blocked += b.blocked
	a.unlimited += b.unlimited
	a.observed += b.observed
	a.uncounted += b.uncounted
	a.repeated += b.repeated
	a.jumped += b.jumped
}

func (a *tally) checkAllHappened(t *testing.T, open bool) {
	for _, n := range []int{a.instances, a.crashes, a.clocksSet, a.acknowledged, a.refused, a.local, a.prechecked,
		a.connectionsRefused, a.lostBefore, a.lostAfter, a.failed, a.late,
		a.overrides, a.blocked, a.unlimited, a.observed, a.repeated, a.jumped} {
		if n == 0 {
			t.Errorf("something never happened: %+v", *a)
		}
	}
	if happened := a.degradedAllowed > 0 && a.degradedRefused > 0; happened != open {
		t.Errorf("decisions by the fallback: %+v", *a)
	}
}

// counterID names one counter of one window.
type counterID struct {
	key  ratelimit.Key
	name string
}

// ledger is the simulation's own account of counters.
type ledger map[counterID]int64

func (l ledger) add(key ratelimit.Key, rules []rule) {
	for _, r := range rules {
		l[counterID{key, r.name}] += r.cost
	}
}

// full names the rules whose cost l leaves no room for.
func (l ledger) full(key ratelimit.Key, rules []rule) (policies []string) {
	for _, r := range rules {
		if r.cost > 0 && l[counterID{key, r.name}] > r.limit-r.cost {
			policies = append(policies, r.policy)
		}
	}
	return policies
}

// rule is what the specification charges a request, computed independently.
type rule struct {
	policy, name string
	cost, limit  int64
}

// world is one simulated service. Fields below mu are guarded by it.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand // of the goroutine that runs the seed
	open bool       // with a fallback

	store      *memstore.Store
	limits     ratelimit.Limits
	overriding bool // limits of addresses change
	addresses  []string
	timeout    time.Duration // of a call of the store
	skewed     bool          // clocks are wrong by up to a second
	concurrent bool          // an instance serves many requests at once, as a server does; a function serves one
	most       int           // instances
	requests   int
	gap        time.Duration // mean, between requests
	crashes    float64       // probability before each request
	faults     faults
	outage     struct{ from, to time.Time } // every connection is refused

	mu        sync.Mutex
	instances []*instance // the living
	calls     []*call
	applied   ledger // what the store added
	highest   ledger // the highest limits that it kept to
	acked     ledger // what clients were told was admitted
	tally     tally
}

// faults holds probabilities, and the longest time of a charge to the store.
type faults struct {
	refuse, loseBefore, loseAfter, fail, crash, slow float64
	slowest                                          time.Duration
}

// instance is one process with its own Limiter and clock.
type instance struct {
	limiter *ratelimit.Limiter
	ctx     context.Context // done when it dies
	die     context.CancelFunc

	skew      time.Duration               // of its clock; guarded by world.mu, like the rest
	overrides map[string]ratelimit.Limits // by address, as the instance last read them
	busy      int
	fallback  ledger // admitted by its fallback
	known     knowledge
}

// knowledge is what an instance has been told and must not call the store for.
type knowledge struct {
	window  ratelimit.Window // the newest; it need not know of others
	used    ledger
	refused map[counterID]bool // counters that a request was refused because of
}

// call is one request on its way.
type call struct {
	inst  *instance
	req   ratelimit.Request
	class ratelimit.Class
	route string
	rng   *rand.Rand

	limits ratelimit.Limits // in force when it was checked or charged
	rules  []rule

	charged   bool // the store was called, last with key
	attempts  int
	key       ratelimit.Key
	applied   bool // the store added the costs
	responded bool // the Limiter got the store's result
	result    ratelimit.Result
	acked     bool
}

// contextKey carries a *call through the Limiter.
type contextKey struct{}

var routes = []struct {
	name  string
	class ratelimit.Class
}{
	{"list-entity", ratelimit.Export}, {"list-entity", ratelimit.Export}, {"list-event", ratelimit.Export}, {"get-entity", ratelimit.Export},
	{"create-entity", ratelimit.Import}, {"create-event", ratelimit.Import}, {"create-event", ratelimit.Import}, {"usage", ratelimit.General}, {"openapi", ratelimit.General},
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// between returns a duration in [from, to), to the nanosecond, so that two
// things hardly ever happen at once.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

func newWorld(t *testing.T, seed uint64, open bool) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		t: t, seed: seed, rng: rng, open: open,
		store: memstore.New(), applied: make(ledger), highest: make(ledger), acked: make(ledger),
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
	for _, s := range []string{"192.0.2.1", "::ffff:192.0.2.2", "2001:db8:1:2:3::4", "2001:db8:1:3::1"}[:1+rng.IntN(4)] {
		address, err := ratelimit.ParseAddress(s, ratelimit.DefaultIPv6Prefix)
		if err != nil {
			t.Fatal(err)
		}
		w.addresses = append(w.addresses, address)
	}
	if rng.IntN(5) > 0 { // else nothing fails
		bad := pick(rng, 0.01, 0.05, 0.3)
		w.faults = faults{refuse: rng.Float64() * bad, loseBefore: rng.Float64() * bad, loseAfter: rng.Float64() * bad,
			fail: rng.Float64() * bad, crash: rng.Float64() * bad / 4, slow: rng.Float64() * bad}
		w.crashes = pick(rng, 0, 0.005, 0.05)
		if rng.IntN(3) == 0 {
			w.outage.from = time.Now().Add(between(rng, 0, time.Second))
			w.outage.to = w.outage.from.Add(between(rng, 0, time.Second))
		}
	}
	// A store in memory may drop the window of a charge that takes longer: it
	// always keeps only three windows before the newest that any clock shows.
	w.faults.slowest = 2400 * time.Millisecond
	if w.skewed {
		w.faults.slowest = 900 * time.Millisecond
	}
	return w
}

// fail reports the first error; others usually follow from it.
func (w *world) fail(format string, args ...any) {
	if !w.t.Failed() {
		w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
	}
}

// run sends the requests, waits until nothing is under way and checks the
// accounts.
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
			pick(w.rng, w.instances...).skew = w.skew() // its clock is set, forward or back
			w.tally.clocksSet++
		}
		if len(w.instances) > 0 && w.overriding && w.rng.IntN(15) == 0 {
			w.override(pick(w.rng, w.instances...))
		}
		inst := w.instance()
		w.mu.Unlock()
		if inst == nil {
			continue // all are busy
		}
		route := pick(w.rng, routes...)
		c := &call{inst: inst, rng: rand.New(rand.NewPCG(w.seed, uint64(i)+1)), req: ratelimit.Request{
			Address: pick(w.rng, w.addresses...), Route: ratelimit.Route{Name: route.name, Class: route.class},
		}, class: route.class, route: route.name}
		w.calls = append(w.calls, c)
		under.Go(func() { w.serve(c) })
	}
	under.Wait()
	time.Sleep(w.faults.slowest) // until the last late charge arrived
	w.audit()
}

// instance returns one for the next request, starting it if necessary, or nil
// if all are busy and no more may start. w.mu is held.
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
	inst := &instance{busy: 1, fallback: make(ledger), skew: w.skew(), overrides: make(map[string]ratelimit.Limits)}
	inst.ctx, inst.die = context.WithCancel(context.Background())
	cfg := ratelimit.Config{
		Limits: w.limits,
		LimitsFor: func(address string) ratelimit.Limits {
			w.mu.Lock()
			defer w.mu.Unlock()
			return inst.overrides[address]
		},
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return time.Now().Add(inst.skew)
		},
	}
	if w.open {
		cfg.Fallback = memstore.New()
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

// override has an instance read other limits of an address: others, as if it had
// not read them yet, keep theirs. w.mu is held.
func (w *world) override(inst *instance) {
	w.tally.overrides++
	inst.overrides[pick(w.rng, w.addresses...)] = ratelimit.Limits{
		Records:  pick[int64](w.rng, 0, 1, 20, 100, 1000),
		Imports:  pick[int64](w.rng, 0, 2, 7, 900),
		Requests: pick[int64](w.rng, 0, 1, 4, 10, 900),
		Action: pick(w.rng, "", "", ratelimit.ActionLimit, ratelimit.ActionLimit,
			ratelimit.ActionBlock, ratelimit.ActionUnlimited, ratelimit.ActionObserve),
	}
}

// crash ends an instance. w.mu is held.
func (w *world) crash(inst *instance) {
	i := slices.Index(w.instances, inst)
	if i < 0 {
		return // it is dead
	}
	w.instances = slices.Delete(w.instances, i, i+1)
	w.tally.crashes++
	inst.die()
}

// rulesOf returns what a request of that many records costs.
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

// chargedRules returns the rules that the store must keep to.
func (c *call) chargedRules() []rule {
	rules := slices.Clone(c.rules)
	for i := range rules {
		if c.limits.Action == ratelimit.ActionUnlimited {
			rules[i].limit = ratelimit.NoLimit
		}
	}
	return rules
}

// refused reports whether the store has refused the latest charge.
func (c *call) refused() bool { return c.responded && !c.result.Admitted }

// keyNow returns the key of a request that is charged now. w.mu is held.
func (w *world) keyNow(c *call) ratelimit.Key {
	scope := ratelimit.Scope(c.class)
	if c.class == ratelimit.General {
		scope = ratelimit.Scope(c.route)
	}
	return ratelimit.Key{Address: c.req.Address, Scope: scope, Window: ratelimit.WindowAt(time.Now().Add(c.inst.skew))}
}

// begin notes the limits that are in force for a request, and returns the
// current window.
func (w *world) begin(c *call) ratelimit.Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.limits = c.inst.overrides[c.req.Address].Or(w.limits).Or(ratelimit.Limits{Records: 200, Imports: 200, Requests: 200, Action: ratelimit.ActionLimit})
	return w.keyNow(c).Window
}

// serve handles one request as a function of the service does: an export reads
// first, unless it is known to be refused, and is charged for what it found; an
// import is charged before it writes.
func (w *world) serve(c *call) {
	defer func() {
		w.mu.Lock()
		c.inst.busy--
		w.mu.Unlock()
	}()
	found := int64(0)
	if c.class == ratelimit.Export {
		c.req.Asked = pick(c.rng, 1, 7, 50, 200, 1+c.rng.Int64N(200))
		if c.route == "get-entity" {
			c.req.Asked = 1
		}
		w.begin(c)
		d, refused := c.inst.limiter.Precheck(c.req)
		if w.judgePrecheck(c, d, refused); refused {
			return
		}
		if sleep(c.inst.ctx, between(c.rng, 1, 20*time.Millisecond)) != nil { // the read
			return
		}
		found = pick(c.rng, c.req.Asked, c.req.Asked, c.rng.Int64N(c.req.Asked+1), 0)
	}
	c.req.Records = found
	began := w.begin(c)
	c.rules = w.rulesOf(c, found)
	d, err := c.inst.limiter.Charge(context.WithValue(c.inst.ctx, contextKey{}, c), c.req)
	w.judge(c, d, err, began)

	// The work that was charged for, and the response on its way to the client.
	if d.Allowed && sleep(c.inst.ctx, between(c.rng, 1, 20*time.Millisecond)) == nil {
		w.acknowledge(c, d)
	}
}

// network is the store as instances reach it. Like a store behind a real network
// it bounds the time of a call.
type network struct{ w *world }

var (
	errConnection = errors.New("connection refused")
	errBroken     = errors.New("connection reset")
	errInternal   = errors.New("internal server error")
)

// Charge implements ratelimit.Store. Its error does not tell what happened to
// the charge.
func (n network) Charge(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	w, c := n.w, ctx.Value(contextKey{}).(*call)
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.mu.Lock()
	if c.charged && (!c.refused() || key.Window == c.key.Window) {
		w.fail("%+v was charged again", c.req)
	}
	if want := w.keyNow(c); key != want {
		w.fail("%+v is charged as %+v, want %+v", c.req, key, want)
	}
	if c.charged {
		w.tally.repeated++
	}
	if k := &c.inst.known; k.window == key.Window && k.excludes(key, c.chargedRules()) {
		w.fail("the store is called for %+v in %+v, which the instance knows to be refused: %+v", c.req, key, k.used)
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
		sleep(ctx, between(c.rng, 1, time.Millisecond)) //nolint:errcheck // the charge is lost either way
		return lost(&w.tally.connectionsRefused, errConnection)
	}
	if c.rng.Float64() < w.faults.loseBefore {
		if c.rng.IntN(2) == 0 {
			<-ctx.Done() // silence
			return lost(&w.tally.lostBefore, ctx.Err())
		}
		sleep(ctx, there) //nolint:errcheck // the charge is lost either way
		return lost(&w.tally.lostBefore, errBroken)
	}
	sent := time.Now()
	if sleep(ctx, there) != nil {
		// Given up, but on its way, and the store does not know.
		time.AfterFunc(there-time.Since(sent), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tally.late++
			w.apply(c, key, costs)
		})
		return ratelimit.Result{}, ctx.Err()
	}
	if c.rng.Float64() < w.faults.fail {
		sleep(ctx, back) //nolint:errcheck // the charge is lost either way
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
		sleep(ctx, back) //nolint:errcheck // the charge is lost either way
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

// apply charges the real store and checks it against the accounts. w.mu is held.
func (w *world) apply(c *call, key ratelimit.Key, costs []ratelimit.Cost) ratelimit.Result {
	rules := c.chargedRules()
	same := slices.EqualFunc(costs, rules, func(got ratelimit.Cost, want rule) bool {
		return got == ratelimit.Cost{Rule: ratelimit.Rule{Policy: want.policy, Counter: want.name, Limit: want.limit}, Amount: want.cost}
	})
	if !same {
		w.fail("charged are %+v, the rules say %+v", costs, rules)
		return ratelimit.Result{Used: make([]int64, len(costs))}
	}
	full := w.applied.full(key, rules)
	result, err := w.store.Charge(context.Background(), key, costs)
	if err != nil || result.Admitted != (full == nil) {
		w.fail("%+v, error %v, full are %v: %+v", result, err, full, costs)
	}
	if result.Admitted {
		c.applied = true
		w.applied.add(key, rules)
		for _, r := range rules {
			id := counterID{key, r.name}
			w.highest[id] = max(w.highest[id], r.limit)
		}
	}
	w.checkStored(key, c.rules)
	return result
}

// sleep waits for d, or until ctx is done, which is an error.
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
