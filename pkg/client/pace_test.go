package client_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/client"
	"sluice/pkg/event"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// limited stands in for the service and uses the real Limiter. Each of its instances has its
// own clock.
type limited struct {
	instances []*ratelimit.Limiter
	latency   func() time.Duration // random round-trip time of a request
	charge    func(*http.Request) ratelimit.Request
	strip     bool // whether RateLimit and RateLimit-Policy are missing, as behind some proxies

	mu                sync.Mutex
	accepted, refused int
	perWindow         map[ratelimit.Window]int
	unanswered        float64 // share of the requests whose response is lost
}

func newLimited(t *testing.T, limits ratelimit.Limits, latency time.Duration, ahead ...time.Duration) *limited {
	t.Helper()
	s := &limited{
		perWindow: make(map[ratelimit.Window]int),
		latency:   func() time.Duration { return latency/2 + rand.N(latency+1)/2 },
		charge: func(*http.Request) ratelimit.Request {
			return ratelimit.Request{Route: createEvent}
		},
	}
	store := memory.NewCounters()
	for _, d := range ahead {
		l, err := ratelimit.New(store, ratelimit.Config{Limits: limits, Now: func() time.Time { return time.Now().Add(d) }})
		if err != nil {
			t.Fatal(err)
		}
		s.instances = append(s.instances, l)
	}
	return s
}

var createEvent = ratelimit.Route{Name: "create-event", Class: ratelimit.Import}

var loopback = netip.MustParseAddr("127.0.0.1")

func subject(instance *ratelimit.Limiter) ratelimit.Subject {
	return instance.Subject(nil, ratelimit.Caller{Address: netip.PrefixFrom(loopback, loopback.BitLen())})
}

func (s *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.latency() / 2)
	s.mu.Lock()
	instance := s.instances[rand.IntN(len(s.instances))]
	s.mu.Unlock()
	req := s.charge(r)
	req.Subject = subject(instance)
	d, err := instance.Charge(context.Background(), req)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if d.Allowed {
		s.accepted++
		s.perWindow[d.Window]++
	} else {
		s.refused++
	}
	lost := rand.Float64() < s.unanswered
	s.mu.Unlock()
	time.Sleep(s.latency() / 2)
	if lost {
		return nil, io.ErrUnexpectedEOF
	}
	header := make(http.Header)
	d.SetHeaders(header)
	canonical := make(http.Header)
	for name, values := range header {
		if !s.strip || strings.HasPrefix(name, "X-") {
			canonical[http.CanonicalHeaderKey(name)] = values
		}
	}
	if !d.Allowed {
		canonical.Set("Retry-After", "1")
		return respondWith(429, `{}`, canonical), nil
	}
	if r.Method == http.MethodGet {
		return respondWith(200, `{"data":[`+strings.TrimSuffix(strings.Repeat(tombstone+",", int(req.Records)), ",")+`],"next_cursor":null,"synced_until":"2026-01-02T00:00:00Z"}`, canonical), nil
	}
	return respondWith(201, stored, canonical), nil
}

const tombstone = `{"id":"a","type":"t","created_at":"2026-01-02T15:04:05.000Z","deleted_at":"2026-01-02T15:04:05.000Z","deleted":true}`

func respondWith(status int, body string, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

const ms = time.Millisecond

var paced = map[string]struct {
	goroutines, clients int
	latency             time.Duration
	ahead               []time.Duration
	limits              ratelimit.Limits
	strip               bool
	unanswered          float64
	rate                float64 // minimum rate of accepted requests, relative to the Client's share of the limit; 0 means 0.95
	refused             float64 // maximum proportion of refused requests; 0 means 0.005
}{
	"one goroutine":             {goroutines: 1, latency: 3 * ms, ahead: []time.Duration{0}},
	"four goroutines":           {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{0}},
	"a slow service":            {goroutines: 4, latency: 18 * ms, ahead: []time.Duration{0}},
	"many goroutines":           {goroutines: 100, latency: 40 * ms, ahead: []time.Duration{0}},
	"a distant service":         {goroutines: 150, latency: 300 * ms, ahead: []time.Duration{0}, rate: 0.93},
	"a clock that is ahead":     {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{370 * ms}},
	"a clock that is far ahead": {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{time.Hour + 999*ms}},
	"a clock that is behind":    {goroutines: 16, latency: 10 * ms, ahead: []time.Duration{-12345 * ms}},
	"instances that differ":     {goroutines: 16, latency: 10 * ms, ahead: []time.Duration{0, 5 * ms, 12 * ms}},
	"another limit":             {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{0}, limits: ratelimit.Limits{Imports: 50}},
	"a limit of requests":       {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{0}, limits: ratelimit.Limits{Imports: 900, Requests: 60}},
	"a limit of one":            {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{250 * ms}, limits: ratelimit.Limits{Imports: 1}},
	"only the older headers":    {goroutines: 4, latency: 4 * ms, ahead: []time.Duration{500 * ms}, strip: true},
	"lost responses":            {goroutines: 16, latency: 4 * ms, ahead: []time.Duration{0}, unanswered: 0.05},
	// A client cannot see other clients' requests before the service has counted them.
	"two clients at one address":  {goroutines: 4, clients: 2, latency: 4 * ms, ahead: []time.Duration{0}, refused: 0.02},
	"five clients at one address": {goroutines: 8, clients: 5, latency: 10 * ms, ahead: []time.Duration{0}, rate: 0.9, refused: 0.05},
}

// Whatever the clock difference, the latency and the number of goroutines, a client uses at
// least 95% of its share, and at most 0.5% of its requests are refused. The bounds are looser for
// several clients at one address, and for a distant service, whose limits are known only after
// two long round trips.
func TestRunsAtTheLimitWithFewRefusals(t *testing.T) {
	t.Parallel()
	const seconds = 12
	for name, tt := range paced {
		for _, share := range []float64{1, client.DefaultShare} {
			t.Run(fmt.Sprintf("%s, share %.1f", name, share), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					service := newLimited(t, tt.limits, tt.latency, tt.ahead...)
					service.strip, service.unanswered = tt.strip, tt.unanswered
					ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
					defer cancel()
					var wg sync.WaitGroup
					for range max(tt.clients, 1) {
						c, err := client.New("http://service", client.Config{Transport: service, Share: share})
						if err != nil {
							t.Fatal(err)
						}
						for range tt.goroutines {
							wg.Go(func() {
								for ctx.Err() == nil {
									if _, _, err := c.CreateEvent(ctx, event.Draft{Name: "n"}); err != nil && ctx.Err() == nil {
										t.Error(err)
									}
								}
							})
						}
					}
					wg.Wait()
					limit := subject(service.instances[0]).Limits
					perSecond := max(math.Floor(share*float64(min(limit.Imports, limit.Requests))), 1)
					rate, refused := float64(service.accepted)/seconds/perSecond, float64(service.refused)/float64(service.accepted+service.refused)
					t.Logf("rate %.3f of the share, %.4f of the requests refused", rate, refused)
					if wantRate, wantRefused := cmp.Or(tt.rate, 0.95), cmp.Or(tt.refused, 0.005); rate < wantRate || refused > wantRefused {
						t.Errorf("rate %.3f of the share, %.4f of the requests refused, want at least %.2f and at most %.3f", rate, refused, wantRate, wantRefused)
					}
				})
			})
		}
	}
}

// listing makes s serve lists. Each list returns min(found, limit) records.
func (s *limited) listing(found int64) {
	s.charge = func(r *http.Request) ratelimit.Request {
		limit, err := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64)
		if err != nil {
			limit = 1 // the request is for one record by id
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return ratelimit.Request{Route: ratelimit.Route{Name: name, Class: ratelimit.Export}, Records: min(found, limit)}
	}
}

// A list is charged for the records that it returns, and never requests more than the limit has
// left. Lists of 50 or 7 records use up the limit exactly; empty lists count only as requests.
func TestListsArePacedByRecords(t *testing.T) {
	t.Parallel()
	const seconds = 19 // full windows within the 20 seconds; the first and the last window are cut short
	for found, perSecond := range map[int64]int{50: 4, 7: 200/7 + 1, 0: 200} {
		synctest.Test(t, func(t *testing.T) {
			service := newLimited(t, ratelimit.Limits{}, 4*time.Millisecond, 123*time.Millisecond)
			service.listing(found)
			c, err := client.New("http://service", client.Config{Transport: service, Share: 1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if _, err := c.ListEvents(ctx, client.EventQuery{Limit: 50}); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			t.Logf("%d records found: %d requests accepted, %d refused", found, service.accepted, service.refused)
			if service.refused > 0 || service.accepted < seconds*perSecond*95/100 {
				t.Errorf("%d records found: in 20 s %d requests were accepted and %d refused, want %d accepted per second and none refused", found, service.accepted, service.refused, perSecond)
			}
		})
	}
}

// A client that reads a whole list uses what the other clients at its address leave. They still
// have room for 17 single records a second, and for a page of 50 now and then.
func TestReadsAListBesideOtherReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records = 3000
		service := newLimited(t, ratelimit.Limits{}, 6*time.Millisecond, 456*time.Millisecond)
		service.listing(math.MaxInt64)
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		var read, refused [2]int
		for i, path := range []string{"/entity/a", "/entity?limit=50"} {
			pause := []time.Duration{time.Second / 17, 3 * time.Second}[i]
			others.Go(func() {
				for sleep(ctx, pause/2+rand.N(pause)) {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://service"+path, nil)
					resp, err := service.RoundTrip(req)
					switch {
					case err != nil:
						t.Error(err)
					case resp.StatusCode == http.StatusTooManyRequests:
						refused[i]++
					default:
						read[i]++
					}
				}
			})
		}
		c, err := client.New("http://service", client.Config{Transport: service})
		if err != nil {
			t.Fatal(err)
		}
		began, got, pages := time.Now(), 0, 0
		for ; got < records; pages++ {
			page, err := c.ListEntityChanges(t.Context(), client.EntityChangeQuery{})
			if err != nil {
				t.Fatalf("after %d records in %s: %v", got, time.Since(began), err)
			}
			got += len(page.Data)
		}
		elapsed := time.Since(began)
		cancel()
		others.Wait()
		t.Logf("%d pages in %s; the others read %v and were refused %v", pages, elapsed, read, refused)
		if elapsed > 22*time.Second || refused[0] > read[0]/20 || refused[1] > read[1] {
			t.Errorf("%d records took %s, want at most 22 s; the others read %v and were refused %v", got, elapsed, read, refused)
		}
	})
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// A rule whose limit is used up delays only the requests that it applies to.
func TestRulesDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := newLimited(t, ratelimit.Limits{Imports: 5}, time.Millisecond, 0)
		service.charge = func(r *http.Request) ratelimit.Request {
			if r.Method == http.MethodGet {
				return ratelimit.Request{Route: ratelimit.Route{Name: "list-event", Class: ratelimit.Export}, Records: 1}
			}
			return ratelimit.Request{Route: createEvent}
		}
		c, err := client.New("http://service", client.Config{Transport: service, Share: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					c.CreateEvent(ctx, event.Draft{Name: "n"}) //nolint:errcheck // the last call is canceled
				}
			})
		}
		time.Sleep(100 * time.Millisecond) // fake time; by then, the import limit is used up
		start := time.Now()
		for range 100 {
			if _, err := c.ListEvents(ctx, client.EventQuery{Limit: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if elapsed := time.Since(start); elapsed > 300*time.Millisecond {
			t.Errorf("100 lists took %s", elapsed)
		}
		cancel()
		wg.Wait()
	})
}

// After the service's clock is set, the client soon uses its whole share again, with few refusals.
func TestTheServicesClockMayBeSet(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-time.Hour, -1500 * time.Millisecond, -300 * time.Millisecond, 300 * time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service := newLimited(t, ratelimit.Limits{}, 4*time.Millisecond, 0)
				set := newLimited(t, ratelimit.Limits{}, 4*time.Millisecond, jump)
				c, err := client.New("http://service", client.Config{Transport: service})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				time.AfterFunc(4400*time.Millisecond, func() {
					service.mu.Lock()
					defer service.mu.Unlock()
					service.instances[0] = set.instances[0]
				})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if _, _, err := c.CreateEvent(ctx, event.Draft{Name: "n"}); err != nil && ctx.Err() == nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				t.Logf("%d accepted, %d refused", service.accepted, service.refused)
				if service.accepted < 7*200 || service.refused > 30 {
					t.Errorf("%d accepted in 10 s, %d refused", service.accepted, service.refused)
				}
			})
		})
	}
}
