package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/ratelimit"
)

// quotaRun is a service with a quota of imports, the same for a day and a month, at the end of a month.
type quotaRun struct {
	t            *testing.T
	proxy        *dynamoproxy.Proxy
	d            deployment
	token        string
	quota, limit int
	ahead        time.Duration    // of DynamoDB's clock
	clocks       bool             // whether those of functions are ahead too
	end          ratelimit.Window // of the month

	mu       sync.Mutex
	admitted int
	failed   int // 5xx: may have counted
	bySecond int
	byQuota  int
	seconds  map[ratelimit.Window]int64 // imports, as the table had them
}

// newQuotaRun shifts DynamoDB's Date to lead before the end of this month. The functions follow it,
// because it is not what their clocks show; with QUOTA_CLOCKS, their clocks are shifted too.
func newQuotaRun(t *testing.T, lead time.Duration) *quotaRun {
	t.Helper()
	r := &quotaRun{t: t, quota: numberOf(t, "QUOTA", 100), limit: numberOf(t, "QUOTA_RATE", 50), seconds: make(map[ratelimit.Window]int64)}
	r.proxy = dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	r.d, r.token = planned(t, r.proxy, ratelimit.Limits{Imports: int64(r.limit), Requests: 900, Quotas: ratelimit.Quotas{ImportsPerDay: int64(r.quota), ImportsPerMonth: int64(r.quota)}})
	r.end = ratelimit.Month.End(ratelimit.WindowAt(time.Now()))
	if _, r.clocks = os.LookupEnv("QUOTA_CLOCKS"); r.clocks {
		lead += time.Minute // to start
	}
	r.ahead = max(0, time.Until(time.Unix(int64(r.end), 0))-lead).Truncate(time.Second)
	r.proxy.SetAhead(r.ahead)
	r.d.env = append(r.d.env, aheadVariable+"="+r.ahead.String())
	return r
}

const aheadVariable = "TEST_CLOCK_AHEAD"

func quotaBinary(t *testing.T) string {
	t.Helper()
	if _, ok := os.LookupEnv("QUOTA_CLOCKS"); ok {
		return buildWithShiftedClock(t, "create-event")
	}
	return lambdatest.Build(t, "create-event")
}

// buildWithShiftedClock builds a function with a package time whose Now is ahead by what a variable says.
func buildWithShiftedClock(t *testing.T, function string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	const shift = "\nvar testAhead = func() int64 { v, _ := syscall.Getenv(\"" + aheadVariable + "\"); d, _ := ParseDuration(v); return int64(d / Second) }()\n"
	shifted := strings.Replace(strings.Replace(string(source), now, now+"sec += testAhead\n", 1), "import (", "import (\n\t\"syscall\"", 1) + shift
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: filepath.Join(dir, "time.go")}})
	if err != nil || strings.Count(shifted, "testAhead") != 2 {
		t.Fatal("package time is not as expected", err)
	}
	for name, text := range map[string]string{"time.go": shifted, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, function)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-tags", "lambda.norpc", "-o", path, "./functions/"+function)
	cmd.Dir, cmd.Env = child.ModuleRoot(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// now is DynamoDB's time.
func (r *quotaRun) now() ratelimit.Window { return ratelimit.WindowAt(time.Now().Add(r.ahead)) }

// used reads what the ledger has at w.
func (r *quotaRun) used(w ratelimit.Window) (month int64) {
	r.t.Helper()
	s, err := dynamo.NewUsage(dynamolocal.Client(r.t), r.d.counters)
	if err != nil {
		r.t.Fatal(err)
	}
	used, err := s.Used(context.Background(), identityOf(r.token), []ratelimit.Route{{Name: "create-event", Class: ratelimit.Import}}, w)
	if err != nil {
		r.t.Error(err)
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, counters := range used.Seconds {
		second := ratelimit.FirstUsageWindow(w) + ratelimit.Window(i)
		r.seconds[second] = max(r.seconds[second], counters[ratelimit.RuleImports])
	}
	return used.Month[ratelimit.RuleImports]
}

// watch reads the ledger while its counters of seconds are there.
func (r *quotaRun) watch(ctx context.Context) {
	for tick := time.NewTicker(500 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		r.used(r.now() + 2)
	}
}

// note returns when the quota ends that refused a request; 0 if none did.
func (r *quotaRun) note(resp events.APIGatewayV2HTTPResponse) (end ratelimit.Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case resp.StatusCode == http.StatusCreated:
		r.admitted++
	case resp.StatusCode >= http.StatusInternalServerError:
		r.failed++
	case resp.StatusCode != http.StatusTooManyRequests:
		r.t.Errorf("%d %s", resp.StatusCode, resp.Body)
	case !strings.Contains(resp.Body, `"imports-month"`):
		r.bySecond++
	default:
		r.byQuota++
		n, err := strconv.ParseInt(resp.Headers["X-RateLimit-Reset"], 10, 64)
		if err != nil {
			r.t.Error(err)
		}
		return ratelimit.Window(n)
	}
	return 0
}

// flood sends as many requests as each instance serves, until the quota of a month that ends later than
// after refuses one of each.
func (r *quotaRun) flood(instances []*lambdatest.Instance, after ratelimit.Window) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for worker, inst := range instances {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				resp, err := inst.Invoke(context.WithoutCancel(ctx), fromThree(r.token)(worker, 1<<20+n))
				if err != nil {
					r.t.Error(err)
					return
				}
				if r.note(resp) > after {
					return
				}
				if os.Getenv("QUOTA") == "" { // leave processor time for other tests
					rest(resp.StatusCode)
				}
			}
			r.t.Error("the quota was not used up in time")
		})
	}
	wg.Wait()
}

func (r *quotaRun) checkSeconds() {
	r.t.Helper()
	busy := 0
	for w, n := range r.seconds {
		if n > int64(r.limit) {
			r.t.Errorf("second %d: %d imports, the limit is %d", w, n, r.limit)
		}
		if n == int64(r.limit) {
			busy++
		}
	}
	r.t.Logf("%d admitted, %d failed, %d refused by the second, %d by the quota; %d seconds at the limit of %d", r.admitted, r.failed, r.bySecond, r.byQuota, busy, r.limit)
}

// Eight processes, three addresses, one key: exactly the quota is admitted in the month that ends, and again
// in the next.
func TestAQuotaIsExactOverInstancesAndTheEndOfAMonth(t *testing.T) {
	t.Parallel()
	lead := time.Duration(numberOf(t, "QUOTA", 100)/numberOf(t, "QUOTA_RATE", 50)+6) * time.Second
	binary := quotaBinary(t)
	r := newQuotaRun(t, lead)
	instances := r.d.startBinary(t, binary, planProcesses)
	r.shift(lead)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.watch(ctx) })
	begun := time.Now()
	r.flood(instances, r.end)
	took := time.Since(begun)
	cancel()
	wg.Wait()
	before, after := r.used(r.end-1), r.used(r.now())
	charges := r.proxy.Usage()[dynamoproxy.Call{Operation: "UpdateItem", Table: r.d.counters}]
	t.Logf("%d requests in %v, %d calls of the counters; %d imports in the month that ended, %d in the next", r.admitted+r.bySecond+r.byQuota, took, charges.Calls, before, after)
	r.checkSeconds()
	if stored := count(t, r.d.events); before != int64(r.quota) || after != int64(r.quota) || r.admitted > 2*r.quota || r.admitted+r.failed < 2*r.quota || stored > 2*r.quota || stored < r.admitted {
		t.Errorf("%d admitted, %d stored, want %d", r.admitted, stored, 2*r.quota)
	}
}

// shift moves DynamoDB's Date to lead before the end of the month. It waits for that time if the functions'
// clocks cannot be moved any more.
func (r *quotaRun) shift(lead time.Duration) {
	if r.clocks {
		<-time.After(time.Until(time.Unix(int64(r.end), 0).Add(-r.ahead - lead)))
		return
	}
	r.ahead = time.Until(time.Unix(int64(r.end), 0)).Truncate(time.Second) - lead
	r.proxy.SetAhead(r.ahead)
}

// While a process is killed and another one stopped every second, no more than the quota is stored, and what
// is neither acknowledged nor unknown is not lost.
func TestAQuotaIsExactWhileProcessesAreKilledAndStopped(t *testing.T) {
	t.Parallel()
	binary := quotaBinary(t)
	r := newQuotaRun(t, 24*time.Hour)
	c := &chaos{t: t, start: func() (*lambdatest.Instance, error) { return lambdatest.Run(binary, r.d.env...) }, slots: make([]*lambdatest.Instance, planProcesses), noted: func(resp events.APIGatewayV2HTTPResponse) { r.note(resp) }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(numberOf(t, "QUOTA_SECONDS", r.quota/r.limit+4))*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.watch(ctx) })
	for worker := range planProcesses {
		wg.Go(func() { c.work(ctx, worker, fromThree(r.token)) })
	}
	wg.Go(func() { c.disturb(ctx) })
	wg.Wait()
	for _, inst := range c.slots {
		if inst != nil {
			inst.Stop()
		}
	}
	r.flood(r.d.startBinary(t, binary, 1), r.end-1)
	sum, stored := r.used(r.now()), count(t, r.d.events)
	t.Logf("%d acknowledged, %d without a result, %d stored, the sum is %d; %d processes killed, %d stopped", r.admitted, c.unknown, stored, sum, c.kills, c.stops)
	r.checkSeconds()
	if sum != int64(r.quota) || r.admitted > r.quota || r.admitted+r.failed+c.unknown < r.quota || stored > r.quota || stored < r.admitted || c.kills == 0 || c.stops == 0 {
		t.Errorf("the quota is %d", r.quota)
	}
}

// Once a quota is used up, each instance calls the counters at most once.
func TestAnExhaustedQuotaCausesNoCalls(t *testing.T) {
	t.Parallel()
	const quota, processes = 20, 4
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d, token := planned(t, proxy, ratelimit.Limits{Imports: 900, Requests: 900, Quotas: ratelimit.Quotas{ImportsPerDay: quota}})
	instances := d.start(t, "create-event", processes)
	for n := range quota {
		invoke(t, instances[0], fromThree(token)(0, n), http.StatusCreated)
	}
	charge := dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}
	before, day := proxy.Usage()[charge].Calls, ratelimit.Day.Start(ratelimit.WindowAt(time.Now()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(numberOf(t, "QUOTA_AFTER_SECONDS", 2))*time.Second)
	defer cancel()
	var sent [processes]int
	var wg sync.WaitGroup
	for worker, inst := range instances {
		wg.Go(func() {
			for ; ctx.Err() == nil && !t.Failed(); sent[worker]++ {
				resp, err := inst.Invoke(context.WithoutCancel(ctx), fromThree(token)(worker, quota+sent[worker]))
				if err != nil || resp.StatusCode != http.StatusTooManyRequests && day == ratelimit.Day.Start(ratelimit.WindowAt(time.Now())) {
					t.Errorf("%d %s, %v", resp.StatusCode, resp.Body, err)
				}
			}
		})
	}
	wg.Wait()
	calls := proxy.Usage()[charge].Calls - before
	t.Logf("%v requests to %d instances after the quota was used up: %d calls", sent, processes, calls)
	if calls > processes && day == ratelimit.Day.Start(ratelimit.WindowAt(time.Now())) {
		t.Errorf("%d calls, want at most %d", calls, processes)
	}
}
