// Package busy changes one entity from many clients at once, and checks what the API says about it.
//
//	export DYNAMODB_LOCAL=$PWD/../.cache/dynamodb-local
//	go test -v -count=1 ./busy
//	TMPDIR=/dev/shm go test -v -count=1 ./busy   # the file of bbolt in memory
//
// results/busy.txt compares it with the version before revisions.
package busy

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/internal/test/boltstores"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// noFiles are export files that nobody asks for.
type noFiles struct{}

func (noFiles) Link(context.Context, exportjob.File) (string, error) { return "", fs.ErrNotExist }

func (noFiles) Delete(context.Context, exportjob.File) error { return fs.ErrNotExist }

// service is the API over one store of entities.
type service struct {
	handler http.Handler
	clients atomic.Int64 // each request comes from an address of its own, so that none is refused
}

func (s *service) send(method, path, body string) (status int, response string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	n := s.clients.Add(1)
	r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&255, n&255)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func newService(t *testing.T, entities entity.Store) *service {
	t.Helper()
	stores, _ := boltstores.New(t, time.Now)
	stores.Entities = entities
	stores.ExportLinks, stores.ExportDeleter = noFiles{}, noFiles{}
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := new(service)
	s.handler, err = httpapi.New(limiter, stores, httpapi.Options{Config: httpapi.Config{AccessOff: true}, RequestID: func(*http.Request) string { return "busy" }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func engines(t *testing.T, run func(t *testing.T, s *service)) {
	t.Run("bbolt", func(t *testing.T) {
		stores, err := bolt.Open(t.TempDir(), bolt.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stores.Close() }) //nolint:errcheck // the file is removed
		run(t, newService(t, stores.Entities))
	})
	t.Run("DynamoDB Local", func(t *testing.T) {
		store, err := dynamo.NewEntities(dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable"), dynamo.EntitiesConfig{})
		if err != nil {
			t.Fatal(err)
		}
		run(t, newService(t, store))
	})
}

// load collects the statuses and durations of requests.
type load struct {
	mu       sync.Mutex
	calls    sync.WaitGroup
	statuses map[int]int
	took     []time.Duration
}

func (l *load) start(call func() (status int)) {
	l.calls.Go(func() {
		began := time.Now()
		status := call()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.statuses[status]++
		l.took = append(l.took, time.Since(began))
	})
}

func (l *load) report(t *testing.T, what string) {
	t.Helper()
	l.calls.Wait()
	slices.Sort(l.took)
	n := len(l.took)
	t.Logf("%s: statuses %v, median %s, p99 %s", what, l.statuses, l.took[n/2].Round(time.Millisecond), l.took[n*99/100].Round(time.Millisecond))
	clear(l.statuses)
	l.took = nil
}

func TestManyUpdatesAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, s *service) {
		l := &load{statuses: make(map[int]int)}
		update := func(id string, n int) func() int {
			return func() int {
				status, _ := s.send("POST", "/update_entity", fmt.Sprintf(`{"id":%q,"attributes":{"a%d":%d}}`, id, n%100, n))
				return status
			}
		}
		for _, clients := range []int{80, 150} {
			id := fmt.Sprint("at-once-", clients)
			s.send("POST", "/create_entity", fmt.Sprintf(`{"id":%q}`, id))
			for n := range clients {
				l.start(update(id, n+1))
			}
			l.report(t, fmt.Sprintf("%d updates at once", clients))
		}
		s.send("POST", "/create_entity", `{"id":"steady"}`)
		tick := time.NewTicker(time.Second / 60)
		defer tick.Stop()
		for n := range 600 {
			<-tick.C
			l.start(update("steady", n+1))
		}
		l.report(t, "60 updates a second for 10 s")
		for n := range 60 {
			l.start(func() int {
				status, _ := s.send("POST", "/upsert_entities", fmt.Sprintf(`{"entities":[{"id":"new","attributes":{"a%d":1}}]}`, n))
				return status
			})
		}
		l.report(t, "60 upserts of one new id at once")
	})
}

type counter struct {
	Revision   int64     `json:"revision"`
	UpdatedAt  time.Time `json:"updated_at"`
	Attributes struct {
		N int `json:"n"`
	} `json:"attributes"`
}

func (s *service) read(t *testing.T, id string) (c counter) {
	status, text := s.send("GET", "/entity/"+id, "")
	for status == 503 {
		status, text = s.send("GET", "/entity/"+id, "")
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Error(err)
	}
	return c
}

// Each of 20 workers reads, adds one and writes to the revision that was read, 200 times. It starts
// again if that has changed.
func TestIncrements(t *testing.T) {
	engines(t, func(t *testing.T, s *service) {
		began := time.Now()
		result := s.increment(t, 20, 200)
		t.Logf("20 × 200 increments: %s, in %s", result, time.Since(began).Round(time.Second/10))
		if result.n != 20*200 || result.revision != 20*200+1 {
			t.Error("increments were lost")
		}
	})
}

// The same with a network that loses one of 20 responses of DynamoDB. A worker does not know whether
// what got 503 was written.
func TestIncrementsWithLostResponses(t *testing.T) {
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	var lost atomic.Int64
	proxy.SetFault(func(dynamoproxy.Call) dynamoproxy.Fault {
		drop := rand.IntN(20) == 0
		if drop {
			lost.Add(1)
		}
		return dynamoproxy.Fault{Drop: drop}
	})
	client := dynamolocal.Client(t, func(o *dynamodb.Options) { o.BaseEndpoint = &proxy.URL })
	store, err := dynamo.NewEntities(client, dynamolocal.Table(t, "EntitiesTable"), dynamo.EntitiesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	result := newService(t, store).increment(t, 10, 50)
	t.Logf("10 × 50 increments, %d responses lost: %s", lost.Load(), result)
	if result.n < result.acknowledged || result.n > result.acknowledged+result.unavailable {
		t.Error("not between the acknowledged ones and those of unknown outcome too")
	}
}

type increments struct{ n, revision, acknowledged, mismatched, unavailable int64 }

func (r increments) String() string {
	return fmt.Sprintf("n is %d, revision %d, %d times 200, %d times 412, %d times 503", r.n, r.revision, r.acknowledged, r.mismatched, r.unavailable)
}

// increment lets each worker add one until it has been told times times that it has.
func (s *service) increment(t *testing.T, workers, times int) (r increments) {
	s.send("POST", "/create_entity", `{"id":"counter","attributes":{"n":0}}`)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for done := 0; done < times; {
				c := s.read(t, "counter")
				body := fmt.Sprintf(`{"id":"counter","attributes":{"n":%d},"if_revision":%d}`, c.Attributes.N+1, c.Revision)
				switch status, text := s.send("POST", "/update_entity", body); status {
				case 200:
					done++
					atomic.AddInt64(&r.acknowledged, 1)
				case 412:
					atomic.AddInt64(&r.mismatched, 1)
				case 503:
					atomic.AddInt64(&r.unavailable, 1)
				default:
					t.Errorf("%d %s", status, text)
					return
				}
			}
		})
	}
	all.Wait()
	c := s.read(t, "counter")
	r.n, r.revision = int64(c.Attributes.N), c.Revision
	return r
}

// Three clients send batches of 100 rows with one id, 100 times.
func TestStampsOfABusyEntity(t *testing.T) {
	engines(t, func(t *testing.T, s *service) {
		var rows []string
		for n := range 100 {
			rows = append(rows, fmt.Sprintf(`{"id":"busy","attributes":{"n":%%d%02d}}`, n))
		}
		template := `{"entities":[` + strings.Join(rows, ",") + `]}`
		var last time.Time
		var back, ahead int
		var most time.Duration
		for round := range 100 {
			var batches sync.WaitGroup
			for client := range 3 {
				batches.Go(func() {
					s.send("POST", "/upsert_entities", strings.ReplaceAll(template, "%d", fmt.Sprint(1+3*round+client)))
				})
			}
			batches.Wait()
			at := s.read(t, "busy").UpdatedAt
			if at.Before(last) {
				back++
			}
			if d := time.Until(at); d > 0 {
				ahead++
				most = max(most, d)
			}
			last = at
		}
		c := s.read(t, "busy")
		t.Logf("3 × 100 batches of 100 rows with one id: the stamp went back %d times and was ahead %d times, at most by %s; revision %d", back, ahead, most.Round(time.Millisecond), c.Revision)
		if back > 0 || ahead > 0 || c.Revision != 300 {
			t.Error("stamps must neither go back nor be ahead, and each batch is one change")
		}
	})
}
