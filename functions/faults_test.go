package functions_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/ratelimit"
)

// faultSeconds returns how long each fault lasts: FAULT_SECONDS seconds, or 1 if it is not set.
func faultSeconds(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("FAULT_SECONDS"), "1") + "s")
	if err != nil || d < time.Second {
		t.Fatalf("FAULT_SECONDS=%q must be a number of at least 1", os.Getenv("FAULT_SECONDS"))
	}
	return d
}

// scenario is a fault between the functions and the engine.
type scenario struct {
	name  string
	begin func()
	end   func()
}

func scenarios(t *testing.T, proxy *dynamoproxy.Proxy, engine *dynamolocal.Engine) []scenario {
	share := func(percent int, f dynamoproxy.Fault) func() {
		return func() {
			proxy.SetFault(func(dynamoproxy.Call) dynamoproxy.Fault {
				if rand.IntN(100) < percent {
					return f
				}
				return dynamoproxy.Fault{}
			})
		}
	}
	pass := func() { proxy.SetFault(nil) }
	return []scenario{
		{"5 % of responses dropped", share(5, dynamoproxy.Fault{Drop: true}), pass},
		{"5 % with status 500, applied", share(5, dynamoproxy.Fault{Error: dynamoproxy.InternalServerError}), pass},
		{"5 % with status 500, not applied", share(5, dynamoproxy.Fault{Error: dynamoproxy.InternalServerError, Skip: true}), pass},
		{"throttling bursts", func() {
			proxy.SetFault(func(dynamoproxy.Call) dynamoproxy.Fault {
				if time.Now().UnixMilli()%1000 < 300 {
					return dynamoproxy.Fault{Error: dynamoproxy.Throttled, Skip: true}
				}
				return dynamoproxy.Fault{}
			})
		}, pass},
		{"2 s delays for 10 %", share(10, dynamoproxy.Fault{Delay: 2 * time.Second}), pass},
		{"refused connections", proxy.Refuse, proxy.Accept},
		{"restart of the engine", engine.Stop, func() { engine.Restart(t) }},
		{"none", func() {}, func() {}},
	}
}

// storm sends requests from one address to instances of two functions.
type storm struct {
	t       *testing.T
	address string

	mu           sync.Mutex
	statuses     map[int]int
	windows      map[ratelimit.Class]map[ratelimit.Window]int64 // admitted cost by class and window
	acknowledged []string                                       // ids of events whose creation was acknowledged (201 or 200)
	longest      time.Duration
	firstPass    time.Time // when a request was first admitted after the last reset
}

func (s *storm) invoke(instance *lambdatest.Instance, class ratelimit.Class, id string) {
	ev := lambdatest.Event("GET", "/entity?limit=7", s.address, "")
	if class == ratelimit.Import {
		ev = lambdatest.Event("POST", "/create_event", s.address, `{"id":"`+id+`","name":"n"}`)
	}
	start := time.Now()
	resp, err := instance.Invoke(context.WithoutCancel(s.t.Context()), ev)
	if err != nil {
		s.t.Error(err) // for example, no response within the function's timeout
		return
	}
	reset, err := strconv.ParseInt(resp.Headers["X-RateLimit-Reset"], 10, 64)
	if err != nil || resp.Headers["RateLimit"] == "" || resp.Headers["X-RateLimit-Remaining"] == "" {
		s.t.Errorf("%d without limit headers: %v", resp.StatusCode, resp.Headers)
	}
	defer rest(resp.StatusCode) // waits, so it must run after Unlock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, time.Since(start))
	s.statuses[resp.StatusCode]++
	switch resp.StatusCode {
	case http.StatusCreated:
		s.acknowledged = append(s.acknowledged, id)
		s.windows[class][ratelimit.Window(reset-1)]++
	case http.StatusOK:
		cost := int64(7)
		if class == ratelimit.Import {
			s.acknowledged = append(s.acknowledged, id) // status 200: the SDK retried a put that had already been applied
			cost = 1
		}
		s.windows[class][ratelimit.Window(reset-1)] += cost
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return
	default:
		s.t.Errorf("status %d: %s", resp.StatusCode, resp.Body)
		return
	}
	if s.firstPass.IsZero() {
		s.firstPass = time.Now()
	}
}

// waitForPass waits until a request is admitted, at most 10 seconds.
func (s *storm) waitForPass() {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-again.C {
		s.mu.Lock()
		passed := !s.firstPass.IsZero()
		s.mu.Unlock()
		if passed {
			return
		}
	}
}

// The limits are low, so that also a busy machine sends more than they admit.
func TestFaults(t *testing.T) {
	t.Parallel()
	const limit = 42
	engine := dynamolocal.StartDurable(t)
	proxy := dynamoproxy.Start(t, engine.Endpoint)
	d := deployOn(t, engine, proxy.URL)
	seedEntities(t, d, 14)
	d.env = append(d.env, fmt.Sprint("LIMIT_IMPORTS=", limit), fmt.Sprint("LIMIT_RECORDS=", limit))
	imports, exports := d.start(t, "create-event", 8), d.start(t, "list-entity", 4)

	t.Logf("%-30s %8s %8s %8s %8s %8s %9s %12s", "fault", "requests", "passed", "429", "503", "over", "longest", "resumed in")
	for n, fault := range scenarios(t, proxy, engine) {
		s := &storm{
			t: t, address: fmt.Sprintf("198.51.100.%d", n+1), statuses: make(map[int]int),
			windows: map[ratelimit.Class]map[ratelimit.Window]int64{ratelimit.Import: {}, ratelimit.Export: {}},
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		run := func(instances []*lambdatest.Instance, class ratelimit.Class) {
			for w, instance := range instances {
				wg.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							s.invoke(instance, class, fmt.Sprintf("%d-%d-%d", n, w, i))
						}
					}
				})
			}
		}
		fault.begin()
		run(imports, ratelimit.Import)
		run(exports, ratelimit.Export)
		<-time.After(faultSeconds(t))
		s.mu.Lock()
		s.firstPass = time.Time{}
		s.mu.Unlock()
		fault.end()
		ended := time.Now()
		s.waitForPass()
		<-time.After(time.Second) // a window's end
		close(stop)
		wg.Wait()

		over := 0
		for class, windows := range s.windows {
			for w, admitted := range windows {
				if admitted > limit {
					over++
					t.Errorf("%s: %d admitted to %s in window %d", fault.name, admitted, class, w)
				}
			}
		}
		resumed := "never"
		if s.firstPass.IsZero() {
			t.Errorf("%s: no request was admitted after the end of the fault", fault.name)
		} else {
			resumed = max(0, s.firstPass.Sub(ended)).Round(time.Millisecond).String()
		}
		total := 0
		for _, n := range s.statuses {
			total += n
		}
		t.Logf("%-30s %8d %8d %8d %8d %8d %9s %12s", fault.name, total, s.statuses[200]+s.statuses[201], s.statuses[429], s.statuses[503], over,
			s.longest.Round(time.Millisecond), resumed)
		stored := eventIDs(t, engine, d.events)
		for _, id := range s.acknowledged {
			if stored[id] != 1 {
				t.Errorf("%s: the acknowledged event %s is stored %d times", fault.name, id, stored[id])
			}
		}
	}
}

func seedEntities(t *testing.T, d deployment, n int) {
	t.Helper()
	create := d.start(t, "create-entity", 1)[0]
	for i := range n {
		ev := lambdatest.Event("POST", "/create_entity", "203.0.113.1", fmt.Sprintf(`{"id":"e%d"}`, i))
		for tries := 1; ; tries++ {
			resp, err := create.Invoke(t.Context(), ev)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode == http.StatusCreated || resp.StatusCode == http.StatusOK {
				break
			}
			if resp.StatusCode != http.StatusServiceUnavailable || tries == 10 { // 503: DynamoDB Local, which has just started, took too long
				t.Fatalf("%s: status %d: %s", ev.RawPath, resp.StatusCode, resp.Body)
			}
		}
	}
}

// eventIDs counts the events in a table by id.
func eventIDs(t *testing.T, engine *dynamolocal.Engine, table string) map[string]int {
	t.Helper()
	ids := make(map[string]int)
	pages := dynamodb.NewScanPaginator(engine.Client(), &dynamodb.ScanInput{TableName: &table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			if id, ok := item["id"].(*types.AttributeValueMemberS); ok {
				ids[id.Value]++
			}
		}
	}
	return ids
}

func TestFailureModeOpenCountsPerInstance(t *testing.T) {
	t.Parallel()
	d := deploy(t, "http://127.0.0.1:9")
	d.env = append(d.env, "FAILURE_MODE=open", "LIMIT_REQUESTS=3", "SERVICE_NAME=sluice-test")
	instance := d.start(t, "not-found", 1)[0]
	windows := flood(t, []*lambdatest.Instance{instance}, demand{full: 1, event: func(int, int) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("GET", "/nowhere", "192.0.2.1", "")
	}})
	for w, got := range windows {
		if got.admitted > 3 || got.refused > 0 && got.admitted != 3 {
			t.Errorf("window %d: %d admitted with %d refused, want 3", w, got.admitted, got.refused)
		}
	}
	if log := instance.Log(); !strings.Contains(log, `"failure_mode":"open"`) || !strings.Contains(log, `"FailedOpen":1`) {
		t.Errorf("the log does not contain the failure mode: %s", log)
	}
}
