// Package limiter measures decisions of the rate limiter. With counters in memory, it compares
// the limiter with other Go limiters. With counters in DynamoDB, it compares the limiter with the
// bare UpdateItem that the limiter would make and with other ways to count requests for two rules.
package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// unlimited is a limit that no benchmark reaches, for contenders other than Sluice.
const unlimited = 1_000_000_000

// highest is the highest limit that Sluice's limiter accepts.
const highest = ratelimit.MaxPerPartition

var errRefused = errors.New("the request was refused")

func address(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255) }

// caller sends imports, to which two rules apply.
type caller struct {
	address netip.Prefix
	keyID   string
}

func byAddress(clients int) []caller {
	all := make([]caller, clients)
	for n := range all {
		all[n].address = netip.MustParsePrefix(address(n) + "/32")
	}
	return all
}

func addresses(clients int) []string {
	all := make([]string, clients)
	for n := range all {
		all[n] = address(n)
	}
	return all
}

// byKey returns callers that are counted by API key.
func byKey(clients int) []caller {
	all := byAddress(clients)
	for n := range all {
		all[n].keyID = keyID(n)
	}
	return all
}

func keyID(n int) string { return fmt.Sprintf("key%d", n) }

// limiter decides as the service does: it resolves who is counted, then charges.
type limiter struct {
	*ratelimit.Limiter
	rows *ratelimit.Rows
}

func (l limiter) charge(ctx context.Context, c caller) (ratelimit.Decision, error) {
	return l.Charge(ctx, ratelimit.Request{
		Subject: l.Subject(l.rows, ratelimit.Caller{Address: c.address, KeyID: c.keyID}), Route: ratelimit.Route{Name: "create-event", Class: ratelimit.Import},
	})
}

// newLimiter returns a limiter with a row for each client's API key, and at least as many rows as a
// service can have. Its two rules, "imports" and "requests", have the same limit.
func newLimiter(b *testing.B, store ratelimit.Store, clients int, limit int64, now func() time.Time) limiter {
	b.Helper()
	all := make([]ratelimit.Row, max(clients, ratelimit.MaxRows))
	for n := range all {
		all[n] = ratelimit.Row{KeyID: keyID(n), Action: ratelimit.ActionLimit, Imports: limit, Requests: limit}
	}
	rows, err := ratelimit.NewRows(all)
	if err != nil {
		b.Fatal(err)
	}
	l, err := ratelimit.New(store, ratelimit.Config{
		Limits: ratelimit.Limits{Imports: limit, Requests: limit},
		Now:    now,
	})
	if err != nil {
		b.Fatal(err)
	}
	return limiter{l, rows}
}

// clock returns a clock for clients that take turns. It advances one second for every 900
// readings per client. A decision takes three or four readings, so no client reaches its limit.
func clock(clients int) func() time.Time {
	start := time.Now()
	var calls atomic.Int64
	return func() time.Time {
		return start.Add(time.Duration(calls.Add(1)) * time.Second / time.Duration(highest*clients))
	}
}

// memoryLimiter counts in memory. open returns a function that decides on a request of the nth
// client. A refusal is an error.
type memoryLimiter struct {
	impl string
	open func(b *testing.B, clients int) (decide func(n int) error)
}

// sluiceInMemory returns memoryLimiter.open for Sluice's limiter.
func sluiceInMemory(callers func(clients int) []caller) func(*testing.B, int) func(int) error {
	return func(b *testing.B, clients int) func(int) error {
		l := newLimiter(b, memory.NewCounters(), clients, highest, clock(clients))
		callers := callers(clients)
		return func(n int) error {
			d, err := l.charge(context.Background(), callers[n])
			return allowed(d.Allowed, err)
		}
	}
}

var inMemory = []memoryLimiter{
	{"sluice", sluiceInMemory(byAddress)},
	{"sluice-key", sluiceInMemory(byKey)},
	{"go-limiter", func(b *testing.B, clients int) func(int) error {
		// With an interval of one second, the store would refill only one token per second.
		store, err := memorystore.New(&memorystore.Config{Tokens: unlimited, Interval: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { store.Close(context.Background()) }) //nolint:errcheck // the store is in memory
		keys := addresses(clients)
		return func(n int) error {
			_, _, _, ok, err := store.Take(context.Background(), keys[n])
			return allowed(ok, err)
		}
	}},
	{"throttled", func(b *testing.B, clients int) func(int) error {
		store, err := throttledstore.NewCtx(0)
		if err != nil {
			b.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(unlimited), MaxBurst: unlimited})
		if err != nil {
			b.Fatal(err)
		}
		keys := addresses(clients)
		return func(n int) error {
			limited, _, err := l.RateLimitCtx(context.Background(), keys[n], 1)
			return allowed(!limited, err)
		}
	}},
}

func allowed(ok bool, err error) error {
	if err == nil && !ok {
		return errRefused
	}
	return err
}

// BenchmarkMemory measures decisions for different numbers of clients, sequentially and on all
// processors. Sluice checks two rules per request, and the other limiters check one.
func BenchmarkMemory(b *testing.B) {
	for _, clients := range []int{1, 1000, 100_000} {
		for _, l := range inMemory {
			b.Run(fmt.Sprintf("mode=serial/clients=%d/impl=%s", clients, l.impl), func(b *testing.B) {
				decide := l.open(b, clients)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if err := decide(n % clients); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	const clients = 1000
	for _, l := range inMemory {
		b.Run(fmt.Sprintf("mode=parallel/clients=%d/impl=%s", clients, l.impl), func(b *testing.B) {
			decide := l.open(b, clients)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for n := rand.IntN(clients); pb.Next(); n++ {
					if err := decide(n % clients); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
