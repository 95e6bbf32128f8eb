// Package storetest provides one conformance suite per store interface, for all implementations.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/pkg/record"
)

const workspace = "default"

type recordStore[R any] interface {
	create(ctx context.Context, workspace string, r R) (stored R, created bool, err error)
	Get(ctx context.Context, workspace, id string) (R, error)
}

// recordKind is what the suite needs to know about records R and their stores S.
type recordKind[R any, S recordStore[R]] struct {
	noun       string // "entity" or "event"
	id         func(R) string
	createdAt  func(R) record.Time
	attributes func(R) record.Attributes
	plain      func(id string) R                                                // a simple record
	variant    func(id string, n int) R                                         // differs from plain(id) and the other variants in everything but the id
	with       func(r R, label string, attributes record.Attributes) R          // r with another type or name and other attributes
	extra      []R                                                              // additional records for the test that reads records back
	lists      func(ctx context.Context, s S, workspace string) []recordList[R] // lists of all records, one for each direction
	others     func(ctx context.Context, s S) map[string]error                  // calls the store's other methods, and returns their errors by name
}

type recordList[R any] struct {
	compare func(a, b R) int // orders records as the list does
	page    func(cursor record.Cursor, limit int) (record.Page[R], error)
}

// changesOf returns the list that q requests. changes reads a page, as a store's Changes does.
func changesOf[R interface{ SyncPosition() record.Position }](ctx context.Context, changes func(context.Context, string, record.SyncQuery) (record.Page[R], error), workspace string, q record.SyncQuery) recordList[R] {
	return recordList[R]{
		compare: func(a, b R) int {
			if q.Descending {
				a, b = b, a
			}
			return a.SyncPosition().Compare(b.SyncPosition())
		},
		page: func(cursor record.Cursor, limit int) (record.Page[R], error) {
			q.Cursor, q.Limit = cursor, limit
			return changes(ctx, workspace, q)
		},
	}
}

// read returns a page and the cursor of the next one. It fails the test if the page is not in
// order, or is empty although it has a cursor.
func (l recordList[R]) read(t *testing.T, cursor record.Cursor, limit int) (records []R, next record.Cursor) {
	t.Helper()
	page, err := l.page(cursor, limit)
	records = page.Records
	switch {
	case err != nil:
		t.Fatal(err)
	case len(records) > limit:
		t.Fatalf("a page with limit %d has %d records", limit, len(records))
	case page.Next != "" && len(records) == 0:
		t.Fatalf("the page is empty, but has the cursor %q", page.Next)
	}
	l.inOrder(t, records)
	return records, page.Next
}

func (l recordList[R]) inOrder(t *testing.T, records []R) {
	t.Helper()
	for i := 1; i < len(records); i++ {
		if l.compare(records[i-1], records[i]) >= 0 {
			t.Fatalf("%+v comes after %+v", records[i], records[i-1])
		}
	}
}

// walk returns all pages from a cursor on. It fails the test if a page is empty although the
// previous page had a cursor.
func (l recordList[R]) walk(t *testing.T, cursor record.Cursor, limit int) (pages [][]R) {
	t.Helper()
	for {
		page, next := l.read(t, cursor, limit)
		if len(pages) > 0 && len(page) == 0 {
			t.Fatal("the page is empty although the previous page had a cursor")
		}
		if pages = append(pages, page); next == "" {
			l.inOrder(t, slices.Concat(pages...))
			return pages
		}
		cursor = next
	}
}

// check reads the whole list with each of the page limits. The pages must contain the wanted
// records in order, and be as few as possible.
func (l recordList[R]) check(t *testing.T, want []R, limits ...int) {
	t.Helper()
	want = slices.SortedFunc(slices.Values(want), l.compare)
	for _, limit := range limits {
		pages := l.walk(t, "", limit)
		got := slices.Concat(pages...)
		for i := range min(len(got), len(want)) {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("limit %d: record %d is %+v, want %+v", limit, i, got[i], want[i])
			}
		}
		if n := max(1, (len(want)+limit-1)/limit); len(got) != len(want) || len(pages) != n {
			t.Errorf("limit %d: %d records on %d pages, want %d on %d", limit, len(got), len(pages), len(want), n)
		}
	}
}

// run tests what stores of entities and of events have in common. open returns an empty store,
// whose lists must contain every new record immediately.
func (k recordKind[R, S]) run(t *testing.T, open func(t *testing.T) S) {
	runAll(t, open, []test[S]{
		{"an " + k.noun + " is read back as it was created", k.testReadBack},
		{"a repeated create changes nothing and returns the stored " + k.noun, k.testRepeat},
		{"one of several concurrent creates with the same id stores its record, and all of them return that record", k.testOneWinner},
		{"workspaces are separate", k.testWorkspaces},
		{"a record that does not exist is not found", k.testNotFound},
		{"pages of any length contain every " + k.noun + " once", k.testPages},
		{"a page ends before it holds too many bytes", k.testPageBytes},
		{"a cancelled context is an error and changes nothing", k.testCancelled},
	})
}

type test[S any] struct {
	name string
	run  func(t *testing.T, s S)
}

// runAll runs tests in parallel, each with its own store.
func runAll[S any](t *testing.T, open func(t *testing.T) S, tests []test[S]) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// fill creates records in order of time, and those of the same time concurrently.
func (k recordKind[R, S]) fill(t *testing.T, s S, workspace string, records ...R) {
	t.Helper()
	records = slices.SortedStableFunc(slices.Values(records), func(a, b R) int { return k.createdAt(a).Compare(k.createdAt(b)) })
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for i, r := range records {
		if i > 0 && k.createdAt(r) != k.createdAt(records[i-1]) {
			wg.Wait()
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, created, err := s.create(t.Context(), workspace, r); !created || err != nil {
				t.Errorf("create %s: created %v, error %v", k.id(r), created, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (k recordKind[R, S]) fillPlain(t *testing.T, s S, workspace string, ids ...string) {
	t.Helper()
	var records []R
	for _, id := range ids {
		records = append(records, k.plain(id))
	}
	k.fill(t, s, workspace, records...)
}

// want checks that a workspace and its lists contain exactly these records.
func (k recordKind[R, S]) want(t *testing.T, s S, workspace string, want ...R) {
	t.Helper()
	for _, r := range want {
		if got, err := s.Get(t.Context(), workspace, k.id(r)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("get %s of workspace %s: error %v\n got %+v\nwant %+v", k.id(r), workspace, err, got, r)
		}
	}
	for _, l := range k.lists(t.Context(), s, workspace) {
		page, next := l.read(t, "", 200)
		want := slices.SortedFunc(slices.Values(want), l.compare)
		if next != "" || !slices.EqualFunc(page, want, func(a, b R) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("list of workspace %s, next %q:\n got %+v\nwant %+v", workspace, next, page, want)
		}
	}
}

func (k recordKind[R, S]) wantNotFound(t *testing.T, s S, workspace, id string) {
	t.Helper()
	if got, err := s.Get(t.Context(), workspace, id); record.CodeOf(err) != record.NotFound {
		t.Errorf("get %s of workspace %s: %+v, error %v; want code NotFound", id, workspace, got, err)
	}
}

// fillTexts gives each empty text its member's name, so that the suites test every member.
func fillTexts(members []record.Member) {
	for _, m := range members {
		if text, ok := m.Value.(*string); ok && m.Empty() {
			*text = m.Name
		}
	}
}

func recordAt(text string) record.Time {
	t, err := record.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return t
}

// samples returns records with many kinds of content.
func (k recordKind[R, S]) samples() []R {
	samples := append([]R{k.plain("plain"), k.plain(strings.Repeat("x", record.MaxIDLength))}, k.extra...)
	for i, attributes := range []string{
		`{}`,
		`{"n":12345678901234567890.10,"m":-0,"e":1E+400,"z":1.0}`,
		`{"html":"<a href='/?a&b'>&amp;</a>"}`,
		"{\"separators\":\"\u2028\u2029\",\"odd\":\"\ufeff\ufffe\uffff\x7f\"}",
		`{"escapes":"\u0041\u00e9\/\b\f\n\r\t\\\"\u0000\u2028\ud83d\ude00\u003c"}`,
		`{"composed":"é","decomposed":"é","emoji":"😀","":null}`,
		`{"b":1,"a":[true,false,{"b":2,"a":[]}]}`,
		strings.Repeat(`{"a":`, record.MaxDepth-1) + `{}` + strings.Repeat(`}`, record.MaxDepth-1),
	} {
		samples = append(samples, k.with(k.plain(fmt.Sprintf("attributes-%d", i)), "label", record.Attributes(attributes)))
	}
	for i, label := range []string{"<&>", `"\`, "\x00\x1f\x7f", "\u2028\ufeff\ufffe", " ", strings.Repeat("😀", record.MaxNameLength)} {
		samples = append(samples, k.with(k.plain(fmt.Sprintf("label-%d", i)), label, record.Attributes(`{}`)))
	}
	return samples
}

func (k recordKind[R, S]) testReadBack(t *testing.T, s S) {
	samples := k.samples()
	for _, want := range samples {
		if stored, created, err := s.create(t.Context(), workspace, want); !created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
		}
		if stored, created, err := s.create(t.Context(), workspace, k.variant(k.id(want), 1)); created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create again: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
		}
	}
	k.want(t, s, workspace, samples...)
}

func (k recordKind[R, S]) testRepeat(t *testing.T, s S) {
	first := k.plain("a")
	k.fill(t, s, workspace, first)
	for _, again := range []R{first, k.variant("a", 1)} {
		stored, created, err := s.create(t.Context(), workspace, again)
		if created || err != nil || !reflect.DeepEqual(stored, first) {
			t.Errorf("create %+v: created %v, error %v, stored %+v", again, created, err, stored)
		}
	}
	k.want(t, s, workspace, first)
}

func (k recordKind[R, S]) testOneWinner(t *testing.T, s S) {
	const workers = 24
	stored := make([]R, workers)
	var winners, winner atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			<-start
			got, created, err := s.create(t.Context(), workspace, k.variant("a", i))
			if err != nil {
				t.Error(err)
			}
			if created {
				winners.Add(1)
				winner.Store(int64(i))
			}
			stored[i] = got
		})
	}
	close(start)
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d creates succeeded, want 1", winners.Load())
	}
	want := k.variant("a", int(winner.Load()))
	for i, got := range stored {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("create %d returned %+v, want %+v", i, got, want)
		}
	}
	k.want(t, s, workspace, want)
}

func (k recordKind[R, S]) testWorkspaces(t *testing.T, s S) {
	only := func(workspace string) string { return fmt.Sprintf("only-%x", workspace) }
	workspaces := []string{"a", "ab", "A", "a.b", "a:", "b", "entities", "events", "é"}
	for i, w := range workspaces {
		k.fill(t, s, w, k.variant("shared", i), k.plain(only(w)))
	}
	for i, w := range workspaces {
		k.want(t, s, w, k.variant("shared", i), k.plain(only(w)))
	}
	k.wantNotFound(t, s, "a", only("ab"))
	k.wantNotFound(t, s, "ab", only("a"))
	k.want(t, s, "abc")
}

func (k recordKind[R, S]) testNotFound(t *testing.T, s S) {
	k.wantNotFound(t, s, workspace, "a") // in a workspace without records
	k.fillPlain(t, s, workspace, "ab", "b")
	k.fillPlain(t, s, "other", "a")
	for _, id := range []string{"a", "aba", "B", "b."} {
		k.wantNotFound(t, s, workspace, id)
	}
}

func (k recordKind[R, S]) testPages(t *testing.T, s S) {
	var records []R
	for i := range 12 {
		// Each variant is used three times in a row, so that some pages end between records of the
		// same variant.
		records = append(records, k.variant(fmt.Sprintf("%02d", 99-i), i/3))
	}
	k.fill(t, s, workspace, records...)
	k.fillPlain(t, s, workspace+"-neighbor", "00", "99")
	for _, l := range k.lists(t.Context(), s, workspace) {
		l.check(t, records, 1, 2, 3, 4, 5, 6, 11, 12, 13, 200)
	}
}

func (k recordKind[R, S]) testPageBytes(t *testing.T, s S) {
	const count, recordBytes = 15, 250_000
	var records []R
	for i := range count {
		large := record.Attributes(`{"a":"` + strings.Repeat("<", recordBytes) + `"}`)
		records = append(records, k.with(k.variant(fmt.Sprintf("%02d", i), i), "large", large))
	}
	k.fill(t, s, workspace, records...)
	for _, l := range k.lists(t.Context(), s, workspace) {
		want := slices.SortedFunc(slices.Values(records), l.compare)
		for _, limit := range []int{4, 10, 200} {
			pages := l.walk(t, "", limit)
			if got := slices.Concat(pages...); !slices.EqualFunc(got, want, func(a, b R) bool { return k.id(a) == k.id(b) }) {
				t.Errorf("limit %d: %d records, which are too few or in the wrong order", limit, len(got))
			}
			for i, page := range pages {
				size := 0
				for _, r := range page {
					size += len(k.attributes(r))
				}
				if size > record.MaxPageBytes {
					t.Errorf("limit %d: page %d has %d bytes", limit, i, size)
				}
				if i < len(pages)-1 && len(page) < limit && size < record.MaxPageBytes/2 {
					t.Errorf("limit %d: page %d ends after %d records of %d bytes", limit, i, len(page), size)
				}
			}
		}
	}
}

func (k recordKind[R, S]) testCancelled(t *testing.T, s S) {
	k.fillPlain(t, s, workspace, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := k.others(ctx, s)
	_, _, calls["create"] = s.create(ctx, workspace, k.plain("b"))
	_, calls["get"] = s.Get(ctx, workspace, "a")
	_, calls["list"] = k.lists(ctx, s, workspace)[0].page("", 1)
	for call, err := range calls {
		if record.CodeOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want code Unavailable because of %v", call, err, context.Canceled)
		}
	}
	k.wantNotFound(t, s, workspace, "b")
	k.want(t, s, workspace, k.plain("a"))
}
