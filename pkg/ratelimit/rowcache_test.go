package ratelimit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pkg/ratelimit"
)

var errRowsDown = errors.New("the table is down")

type fakeRows struct {
	takes time.Duration // how long a read takes, unless its context is done first

	mu    sync.Mutex
	rows  []ratelimit.Row
	err   error
	reads int
}

func (s *fakeRows) List(ctx context.Context) ([]ratelimit.Row, error) {
	s.mu.Lock()
	s.reads++
	rows, err, takes := s.rows, s.err, s.takes // as of the beginning of the read
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return rows, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *fakeRows) set(err error, rows ...ratelimit.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.rows = err, rows
}

func (s *fakeRows) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// limits returns the limits that c's rows give to an address.
func limits(c *ratelimit.RowCache) ratelimit.Limits {
	return c.Value().Find(ratelimit.Caller{Address: block("192.0.2.1/32")}, time.Now()).Limits()
}

func rowOf(records int64) ratelimit.Row {
	return ratelimit.Row{CIDR: block("192.0.2.0/24"), Action: "limit", Records: records}
}

func newCache(t *testing.T, s ratelimit.RowStore, cfg ratelimit.RowCacheConfig) *ratelimit.RowCache {
	t.Helper()
	c, err := ratelimit.NewRowCache(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func refresh(t *testing.T, c *ratelimit.RowCache) (time.Duration, error) {
	t.Helper()
	begin := time.Now()
	err := c.Refresh(t.Context())
	return time.Since(begin), err
}

func checkRecords(t *testing.T, c *ratelimit.RowCache, want int64) {
	t.Helper()
	if got := limits(c).Records; got != want {
		t.Errorf("after %v: the limit of records is %d, want %d", time.Since(rowStart), got, want)
	}
}

// After the first read, no request waits.
func TestRowsAreReadBeforeTheyAreAMinuteOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{takes: 20 * time.Millisecond, rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		checkRecords(t, c, 0)
		if took, err := refresh(t, c); err != nil || took != s.takes {
			t.Fatalf("the first read took %v, error %v", took, err)
		}
		checkRecords(t, c, 1)
		changed := time.Now()
		s.set(nil, rowOf(2))
		for limits(c).Records != 2 {
			time.Sleep(100 * time.Millisecond)
			if took, err := refresh(t, c); err != nil || took != 0 {
				t.Fatalf("a request waited for %v, error %v", took, err)
			}
		}
		if took := time.Since(changed); took > ratelimit.MaxRowAge || took < ratelimit.MaxRowAge/2 {
			t.Errorf("the change took effect after %v", took)
		}
		before, hour := s.count(), time.Now()
		for time.Since(hour) < time.Hour {
			time.Sleep(100 * time.Millisecond)
			refresh(t, c) //nolint:errcheck // checked above
		}
		if n := s.count() - before; n < 60 || n > 81 {
			t.Errorf("%d reads in an hour", n)
		}
	})
}

// Freezing an instance also stops its monotonic clock, so the cache does not use that clock. A
// test cannot stop the clock, so this test only lets time pass.
func TestRowsAreReadAfterAnIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{takes: 20 * time.Millisecond, rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		refresh(t, c) //nolint:errcheck // the first read, which succeeds
		s.set(nil, rowOf(2))
		time.Sleep(ratelimit.MaxRowAge)
		var wg sync.WaitGroup
		for range 10 { // all ten share one read
			wg.Go(func() {
				if took, err := refresh(t, c); err != nil || took != s.takes {
					t.Errorf("%v, error %v", took, err)
				}
				checkRecords(t, c, 2)
			})
		}
		wg.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("%d reads", n)
		}
	})
}

// A read that was frozen returns rows that may be out of date.
func TestAReadThatBeganBeforeAFreezeIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var frozen time.Duration
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(frozen)
		}
		s := &fakeRows{takes: 20 * time.Millisecond, rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{Now: now})
		refresh(t, c) //nolint:errcheck // the first read, which succeeds
		time.Sleep(50 * time.Second)
		if took, err := refresh(t, c); err != nil || took != 0 { // starts a read in the background
			t.Fatalf("%v, error %v", took, err)
		}
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		frozen = time.Hour
		mu.Unlock()
		s.set(nil, rowOf(2))
		if took, err := refresh(t, c); err != nil || took != 30*time.Millisecond {
			t.Errorf("took %v, error %v; want the rest of the first read and a second read", took, err)
		}
		checkRecords(t, c, 2)
	})
}

func TestTheLastRowsApplyWhileReadsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		refresh(t, c) //nolint:errcheck // the first read, which succeeds
		s.set(errRowsDown)
		fresh := time.Now()
		for time.Since(fresh) < 10*time.Minute {
			time.Sleep(time.Second)
			_, err := refresh(t, c)
			synctest.Wait()
			if stale := time.Since(fresh) >= ratelimit.MaxRowAge; stale != (err != nil) || stale && (!errors.Is(err, errRowsDown) || errors.Is(err, ratelimit.ErrRowsUnread)) {
				t.Errorf("after %v: %v", time.Since(fresh), err)
			}
			checkRecords(t, c, 1)
		}
		if n := s.count() - 1; n < 100 || n > 120 {
			t.Errorf("%d failed reads in ten minutes", n)
		}
		s.set(nil, rowOf(3))
		time.Sleep(5 * time.Second)
		if _, err := refresh(t, c); err != nil {
			t.Error(err)
		}
		checkRecords(t, c, 3)
	})
}

func TestTheDefaultsApplyUntilTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{err: errRowsDown, rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		for range 30 {
			if _, err := refresh(t, c); !errors.Is(err, ratelimit.ErrRowsUnread) || !errors.Is(err, errRowsDown) {
				t.Errorf("error %v", err)
			}
			if got := limits(c); got != (ratelimit.Limits{}) {
				t.Errorf("limits %+v", got)
			}
			time.Sleep(time.Second)
		}
		if n := s.count(); n != 6 {
			t.Errorf("%d reads in 30 seconds", n)
		}
		s.set(nil, rowOf(1))
		if _, err := refresh(t, c); err != nil {
			t.Error(err)
		}
		checkRecords(t, c, 1)
	})
}

// Once every six seconds, one request waits for one second. All other requests fail immediately.
func TestFewRequestsWaitForATableThatDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{takes: time.Hour}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		waited := 0
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
			took, err := refresh(t, c)
			if !errors.Is(err, context.DeadlineExceeded) || took != 0 && took != time.Second {
				t.Fatalf("%v, error %v", took, err)
			}
			if took > 0 {
				waited++
			}
		}
		if waited != 10 {
			t.Errorf("%d requests waited", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		time.Sleep(5 * time.Second)
		begin := time.Now()
		if err := c.Refresh(ctx); err == nil || time.Since(begin) > 2*time.Millisecond {
			t.Errorf("a caller that gives up waited %v, error %v", time.Since(begin), err)
		}
		time.Sleep(time.Second)
	})
}

func TestRowsAreReadAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{rows: []ratelimit.Row{rowOf(1)}}
		var back time.Duration
		c := newCache(t, s, ratelimit.RowCacheConfig{Now: func() time.Time { return time.Now().Add(-back) }})
		refresh(t, c) //nolint:errcheck // the first read, which succeeds
		s.set(nil, rowOf(2))
		back = 2 * time.Hour
		if _, err := refresh(t, c); err != nil {
			t.Error(err)
		}
		checkRecords(t, c, 2)
	})
}

func TestAnInvalidRowIsAFailedRead(t *testing.T) {
	s := &fakeRows{rows: []ratelimit.Row{rowOf(-1)}}
	if err := newCache(t, s, ratelimit.RowCacheConfig{}).Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "192.0.2.0/24") {
		t.Errorf("error %v", err)
	}
}

func TestTheOtherRowsApplyBesideAnInvalidOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{rows: []ratelimit.Row{rowOf(7)}, err: ratelimit.InvalidRows{errors.New(`row "all": not a block`)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{})
		for range 2 { // the second refresh does not read
			if _, err := refresh(t, c); err == nil || errors.Is(err, ratelimit.ErrRowsUnread) || !strings.Contains(err.Error(), `row "all"`) {
				t.Errorf("error %v", err)
			}
			checkRecords(t, c, 7)
		}
		if s.count() != 1 {
			t.Errorf("%d reads", s.count())
		}
		s.set(nil, rowOf(8))
		time.Sleep(time.Minute)
		if _, err := refresh(t, c); err != nil {
			t.Errorf("after the row was removed: %v", err)
		}
		checkRecords(t, c, 8)
	})
}

func TestTheMaximumAgeOfRowsIsConfigurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeRows{rows: []ratelimit.Row{rowOf(1)}}
		c := newCache(t, s, ratelimit.RowCacheConfig{MaxAge: 2 * time.Second})
		refresh(t, c) //nolint:errcheck // the first read, which succeeds
		s.set(nil, rowOf(2))
		time.Sleep(2*time.Second - 1)
		refresh(t, c) //nolint:errcheck // only starts a read in the background
		synctest.Wait()
		checkRecords(t, c, 2)
	})
}
