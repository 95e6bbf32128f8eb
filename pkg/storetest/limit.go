package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/ratelimit"
)

// rowsAt is when the rows are updated. It is the current time, because DynamoDB may remove
// rows that have already expired.
var rowsAt = time.Now().UTC().Truncate(time.Second)

func block(cidr string) netip.Prefix { return netip.MustParsePrefix(cidr) }

func rowOf(cidr string, records int64) ratelimit.Row {
	return ratelimit.Row{CIDR: block(cidr), Action: "limit", Records: records, UpdatedAt: rowsAt}
}

func putRows(t *testing.T, s ratelimit.RowManager, rows ...ratelimit.Row) {
	t.Helper()
	for _, r := range rows {
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatalf("put %v: %v", r.CIDR, err)
		}
	}
}

func wantRows(t *testing.T, s ratelimit.RowStore, want ...ratelimit.Row) {
	t.Helper()
	got, err := s.List(t.Context())
	if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

// FillableLimits is a RowManager that adds any number of rows at once, without counting them.
type FillableLimits interface {
	ratelimit.RowManager
	Fill(t *testing.T, rows []ratelimit.Row)
}

// Limits tests a ratelimit.RowManager. open returns a RowManager without rows.
func Limits(t *testing.T, open func(t *testing.T) FillableLimits) {
	t.Run("there is room for 1,000 rows that block and 1,000 others", func(t *testing.T) {
		t.Parallel()
		testMaxRows(t, open(t))
	})
	runAll(t, func(t *testing.T) ratelimit.RowManager { return open(t) }, []test[ratelimit.RowManager]{
		{"a list returns the rows as they were put, in the order of their names", testRowsReadBack},
		{"a put replaces the row with its name", testRowReplace},
		{"only the row with the name is removed", testRowRemove},
		{"concurrent changes are all applied", testConcurrentRows},
		{"a cancelled context is an error and changes nothing", testRowsCancelled},
	})
}

func testRowsReadBack(t *testing.T, s ratelimit.RowManager) {
	wantRows(t, s)
	rows := []ratelimit.Row{
		{KeyID: "7m3kq2xw9abc", Action: "limit", Records: 1000, Imports: 400, Quotas: ratelimit.Quotas{ImportsPerDay: 1}, UpdatedAt: rowsAt, Note: "acme, plan pro"},
		{KeyID: "9m3kq2xw9abc", Action: "block", UpdatedAt: rowsAt, ExpiresAt: rowsAt.Add(time.Hour)},
		{Plan: "pro.2026_x-1", Action: "limit", Records: 5000, Quotas: ratelimit.Quotas{RecordsPerDay: 1, RecordsPerMonth: ratelimit.MaxQuota, ImportsPerDay: 3, ImportsPerMonth: 4}, ExportJobs: true, UpdatedAt: rowsAt, Note: "99 a month"},
		{CIDR: block("0.0.0.0/0"), Action: "observe", UpdatedAt: rowsAt},
		{CIDR: block("9.0.0.0/8"), Action: "block", UpdatedAt: rowsAt, Note: strings.Repeat("😀", 128)},
		{CIDR: block("10.0.0.0/8"), Action: "limit", Records: 1_000_000, Imports: 900, Requests: 1, UpdatedAt: rowsAt, ExpiresAt: rowsAt.Add(time.Hour)},
		{CIDR: block("10.0.0.0/32"), Action: "unlimited", Requests: 7, UpdatedAt: rowsAt},
		{CIDR: block("2001:db8::/32"), Action: "limit", Imports: 3, UpdatedAt: rowsAt, Note: "<&> Ada's"},
	}
	for i := range rows {
		putRows(t, s, rows[(i*3)%len(rows)]) // puts each row once, because len(rows) is not a multiple of 3
	}
	wantRows(t, s, rows...)
}

func testRowReplace(t *testing.T, s ratelimit.RowManager) {
	other := rowOf("192.0.2.0/25", 1)
	putRows(t, s, ratelimit.Row{CIDR: block("192.0.2.0/24"), Action: "observe", Imports: 5, Note: "n", UpdatedAt: rowsAt, ExpiresAt: rowsAt.Add(time.Hour)}, other)
	later := rowOf("192.0.2.0/24", 9)
	later.UpdatedAt = rowsAt.Add(time.Minute)
	putRows(t, s, later)
	wantRows(t, s, later, other)
}

func testRowRemove(t *testing.T, s ratelimit.RowManager) {
	if err := s.Remove(t.Context(), "192.0.2.0/24"); !errors.Is(err, ratelimit.ErrNoRow) {
		t.Errorf("remove from an empty store: %v", err)
	}
	putRows(t, s, rowOf("192.0.2.0/24", 1), rowOf("192.0.2.0/25", 2))
	kept := ratelimit.Row{KeyID: "b", Action: "block", UpdatedAt: rowsAt}
	putRows(t, s, ratelimit.Row{KeyID: "a", Action: "block", UpdatedAt: rowsAt}, kept)
	if err := s.Remove(t.Context(), "key:a"); err != nil {
		t.Error(err)
	}
	for _, absent := range []string{"key:a", "b", "192.0.2.0/23", "192.0.2.1/32", "0.0.0.0/0"} {
		if err := s.Remove(t.Context(), absent); !errors.Is(err, ratelimit.ErrNoRow) {
			t.Errorf("%s: %v", absent, err)
		}
	}
	if err := s.Remove(t.Context(), "192.0.2.0/24"); err != nil {
		t.Error(err)
	}
	wantRows(t, s, kept, rowOf("192.0.2.0/25", 2))
	if err := s.Remove(t.Context(), "192.0.2.0/24"); !errors.Is(err, ratelimit.ErrNoRow) {
		t.Errorf("second remove: %v", err)
	}
}

// fullOf returns MaxRows rows with an action, of which the first expires at expiry.
func fullOf(action ratelimit.Action, network string, expiry time.Time) []ratelimit.Row {
	rows := make([]ratelimit.Row, ratelimit.MaxRows)
	for i := range rows {
		rows[i] = ratelimit.Row{CIDR: block(fmt.Sprintf("%s.%d.%d.0/24", network, i/256, i%256)), Action: action, UpdatedAt: rowsAt}
	}
	rows[0].ExpiresAt = expiry
	return rows
}

func testMaxRows(t *testing.T, s FillableLimits) {
	expiry := rowsAt.Add(time.Hour)
	put := func(cidr string, action ratelimit.Action, at time.Time, want error) {
		t.Helper()
		if err := s.Put(t.Context(), ratelimit.Row{CIDR: block(cidr), Action: action, UpdatedAt: at}); !errors.Is(err, want) {
			t.Errorf("%s %s: error %v, want %v", cidr, action, err, want)
		}
	}
	s.Fill(t, fullOf("limit", "10", expiry))
	put("198.51.100.0/24", "observe", rowsAt, ratelimit.ErrTooManyRows)
	put("10.0.1.0/24", "unlimited", rowsAt, nil) // replaces a row
	put("203.0.113.7/32", "block", rowsAt, nil)
	if err := s.Remove(t.Context(), "203.0.113.7/32"); err != nil {
		t.Error(err)
	}
	s.Fill(t, fullOf("block", "11", expiry))
	put("203.0.113.7/32", "block", rowsAt, ratelimit.ErrTooManyBlocks)
	put("10.0.2.0/24", "block", rowsAt, ratelimit.ErrTooManyBlocks) // would replace a row of the other kind
	put("11.0.1.0/24", "block", rowsAt, nil)
	put("203.0.113.7/32", "block", expiry, nil)
	put("203.0.113.8/32", "block", expiry, ratelimit.ErrTooManyBlocks)
	put("198.51.100.0/24", "observe", expiry, nil)
	put("198.51.101.0/24", "observe", expiry, ratelimit.ErrTooManyRows)
	if rows, err := s.List(t.Context()); err != nil || len(rows) < 2*ratelimit.MaxRows || len(rows) > 2*ratelimit.MaxRows+2 {
		t.Errorf("%d rows, error %v", len(rows), err)
	}
}

func testConcurrentRows(t *testing.T, s ratelimit.RowManager) {
	gone := rowOf("10.0.0.0/8", 1)
	putRows(t, s, gone)
	var want []ratelimit.Row
	var wg sync.WaitGroup
	for n := range 8 {
		r := rowOf(fmt.Sprintf("192.0.2.%d/32", n), int64(n+1))
		want = append(want, r)
		wg.Go(func() {
			if err := s.Put(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		if err := s.Remove(t.Context(), gone.Name()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	wantRows(t, s, want...)
}

func testRowsCancelled(t *testing.T, s ratelimit.RowManager) {
	putRows(t, s, rowOf("10.0.0.0/8", 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if err := s.Put(ctx, rowOf("10.0.0.0/8", 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if err := s.Remove(ctx, "10.0.0.0/8"); !errors.Is(err, context.Canceled) {
		t.Errorf("remove: %v", err)
	}
	wantRows(t, s, rowOf("10.0.0.0/8", 1))
}
