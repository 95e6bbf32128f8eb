package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sluice/pkg/ratelimit"
	"strings"
	"sync"
	"testing"
	"time"
)

// start is the current time. If it were a time in the past, the rows could have
// expired, and DynamoDB could remove them.
var limitStart = time.Now().UTC().Truncate(time.Second)

func block(cidr string) netip.Prefix { return netip.MustParsePrefix(cidr) }

// limit returns a row for a block. Its UpdatedAt is start.
func limit(cidr string, records int64) ratelimit.Row {
	return ratelimit.Row{CIDR: block(cidr), Action: "limit", Records: records, UpdatedAt: limitStart}
}

func putLimit(t *testing.T, s ratelimit.RowManager, rows ...ratelimit.Row) {
	t.Helper()
	for _, r := range rows {
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatalf("put %v: %v", r.CIDR, err)
		}
	}
}

func checkRows(t *testing.T, s ratelimit.RowStore, want ...ratelimit.Row) {
	t.Helper()
	got, err := s.List(t.Context())
	if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

// Limits checks that the stores that open returns fulfill the contract of ratelimit.RowManager.
// Each call of open must return a store without rows.
func Limits(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Run("a list returns the rows as they were put, in the order of their blocks", func(t *testing.T) { comeBack(t, open) })

	t.Run("a put replaces the row of its block", func(t *testing.T) { putReplaces(t, open) })

	t.Run("only the row of the block is removed", func(t *testing.T) { removeOne(t, open) })

	t.Run("there is room for 1,000 rows that have not expired", func(t *testing.T) { fillUp(t, open) })

	t.Run("concurrent changes are all applied", func(t *testing.T) { changeAtOnce(t, open) })

	t.Run("a canceled context is an error and changes nothing", func(t *testing.T) { contextDone(t, open) })
}

func comeBack(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	checkRows(t, s)
	rows := []ratelimit.Row{
		{CIDR: block("0.0.0.0/0"), Action: "observe", UpdatedAt: limitStart},
		{CIDR: block("9.0.0.0/8"), Action: "block", UpdatedAt: limitStart, Note: strings.Repeat("😀", 128)},
		{CIDR: block("10.0.0.0/8"), Action: "limit", Records: 1_000_000, Imports: 900, Requests: 1, UpdatedAt: limitStart, ExpiresAt: limitStart.Add(time.Hour)},
		{CIDR: block("10.0.0.0/32"), Action: "unlimited", Requests: 7, UpdatedAt: limitStart},
		{CIDR: block("2001:db8::/32"), Action: "limit", Imports: 3, UpdatedAt: limitStart, Note: "<&> Ada's"},
	}
	for i := range rows {
		putLimit(t, s, rows[(i*3)%len(rows)])
	}
	checkRows(t, s, rows...)
}

func putReplaces(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	other := limit("192.0.2.0/25", 1)
	putLimit(t, s, ratelimit.Row{CIDR: block("192.0.2.0/24"), Action: "observe", Imports: 5, Note: "n", UpdatedAt: limitStart, ExpiresAt: limitStart.Add(time.Hour)}, other)
	later := limit("192.0.2.0/24", 9)
	later.UpdatedAt = limitStart.Add(time.Minute)
	putLimit(t, s, later)
	checkRows(t, s, later, other)
}

func removeOne(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	if err := s.Remove(t.Context(), block("192.0.2.0/24")); !errors.Is(err, ratelimit.ErrNoRow) {
		t.Errorf("remove from an empty store: %v", err)
	}
	putLimit(t, s, limit("192.0.2.0/24", 1), limit("192.0.2.0/25", 2))
	for _, absent := range []string{"192.0.2.0/23", "192.0.2.1/32", "0.0.0.0/0"} {
		if err := s.Remove(t.Context(), block(absent)); !errors.Is(err, ratelimit.ErrNoRow) {
			t.Errorf("%s: %v", absent, err)
		}
	}
	if err := s.Remove(t.Context(), block("192.0.2.0/24")); err != nil {
		t.Error(err)
	}
	checkRows(t, s, limit("192.0.2.0/25", 2))
	if err := s.Remove(t.Context(), block("192.0.2.0/24")); !errors.Is(err, ratelimit.ErrNoRow) {
		t.Errorf("second remove: %v", err)
	}
}

func fillUp(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	expiring := limit("192.0.2.0/24", 1)
	expiring.ExpiresAt = limitStart.Add(time.Hour)
	putLimit(t, s, expiring)
	for i := range ratelimit.MaxRows - 1 {
		putLimit(t, s, limit(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), 1))
	}
	next := limit("198.51.100.0/24", 1)
	if err := s.Put(t.Context(), next); !errors.Is(err, ratelimit.ErrTooManyRows) {
		t.Errorf("row 1,001: %v", err)
	}
	putLimit(t, s, limit("10.0.0.0/24", 2)) // replaces a row
	next.UpdatedAt = expiring.ExpiresAt
	putLimit(t, s, next)
	next = limit("203.0.113.0/24", 1)
	next.UpdatedAt = expiring.ExpiresAt
	if err := s.Put(t.Context(), next); !errors.Is(err, ratelimit.ErrTooManyRows) {
		t.Errorf("row 1,001, after one has expired: %v", err)
	}
	if rows, err := s.List(t.Context()); err != nil || len(rows) < ratelimit.MaxRows || len(rows) > ratelimit.MaxRows+1 {
		t.Errorf("%d rows, error %v", len(rows), err)
	}
}

func changeAtOnce(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	gone := limit("10.0.0.0/8", 1)
	putLimit(t, s, gone)
	var want []ratelimit.Row
	var wg sync.WaitGroup
	for n := range 8 {
		r := limit(fmt.Sprintf("192.0.2.%d/32", n), int64(n+1))
		want = append(want, r)
		wg.Go(func() {
			if err := s.Put(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		if err := s.Remove(t.Context(), gone.CIDR); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	checkRows(t, s, want...)
}

func contextDone(t *testing.T, open func(t *testing.T) ratelimit.RowManager) {
	t.Parallel()
	s := open(t)
	putLimit(t, s, limit("10.0.0.0/8", 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if err := s.Put(ctx, limit("10.0.0.0/8", 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if err := s.Remove(ctx, block("10.0.0.0/8")); !errors.Is(err, context.Canceled) {
		t.Errorf("remove: %v", err)
	}
	checkRows(t, s, limit("10.0.0.0/8", 1))
}
