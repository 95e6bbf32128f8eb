// Package storetest is the suite that stores of entities and stores of events share.
// The packages entity/storetest and event/storetest add what each has of its own.
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

// Workspace is where tests that need only one keep their records.
const Workspace = "default"

// Store is what stores of records R have in common.
type Store[R any] interface {
	Create(ctx context.Context, workspace string, r R) (stored R, created bool, err error)
	Get(ctx context.Context, workspace, id string) (R, error)
}

// Kind is a kind of records R and of their stores S.
type Kind[R any, S Store[R]] struct {
	Noun       string // "entity" or "event"
	ID         func(R) string
	Attributes func(R) record.Attributes
	Plain      func(id string) R                                          // a record about which nothing is special
	Variant    func(id string, n int) R                                   // a record that differs from Plain(id) and other variants in all but the id
	With       func(r R, label string, attributes record.Attributes) R    // r with another type or name, and attributes
	Extra      []R                                                        // records with further content that must be read back
	Lists      func(ctx context.Context, s S, workspace string) []List[R] // lists of all records, one for each direction
	Others     func(ctx context.Context, s S) map[string]error            // calls the other methods for the record Plain("a")
}

// List is a list of records.
type List[R any] struct {
	Compare func(a, b R) int // its order
	Page    func(after *R, limit int) (page []R, more bool, err error)
}

// Read returns a page of the list, after a record or from the start. It checks that
// the page is in order, starts after that record, and has records if it promises
// more.
func (l List[R]) Read(t *testing.T, after *R, limit int) (page []R, more bool) {
	t.Helper()
	page, more, err := l.Page(after, limit)
	switch {
	case err != nil:
		t.Fatal(err)
	case len(page) > limit:
		t.Fatalf("a page of %d has %d records", limit, len(page))
	case more && len(page) == 0:
		t.Fatal("there are more, yet the page is empty")
	}
	for i := range page {
		if after != nil && l.Compare(*after, page[i]) >= 0 {
			t.Fatalf("%+v comes after %+v", page[i], *after)
		}
		after = &page[i]
	}
	return page, more
}

// Walk returns the pages of the list, after a record or from the start, up to the one
// that says that it is the last. It checks that no page promises too much.
func (l List[R]) Walk(t *testing.T, after *R, limit int) (pages [][]R) {
	t.Helper()
	for {
		page, more := l.Read(t, after, limit)
		if len(pages) > 0 && len(page) == 0 {
			t.Fatal("the page before promised more")
		}
		pages = append(pages, page)
		if !more {
			return pages
		}
		after = &page[len(page)-1]
	}
}

// Check walks the list by pages of each limit: together they must have the records
// of want once, in order, on as few pages as possible.
func (l List[R]) Check(t *testing.T, want []R, limits ...int) {
	t.Helper()
	want = slices.SortedFunc(slices.Values(want), l.Compare)
	for _, limit := range limits {
		pages := l.Walk(t, nil, limit)
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

// Run checks that the stores that open returns keep what the contracts of both kinds
// of stores say. Each call of open must return a store without records, whose lists
// show a record as soon as it is created.
func (k Kind[R, S]) Run(t *testing.T, open func(t *testing.T) S) {
	RunAll(t, open, []Test[S]{
		{"an " + k.Noun + " is read back as it was created", k.testReadBack},
		{"a repeated create changes nothing and returns what is stored", k.testRepeat},
		{"of concurrent creates of one id one wins and all return it", k.testOneWinner},
		{"workspaces are apart", k.testWorkspaces},
		{"what is not there is not found", k.testNotFound},
		{"pages of any length hold every " + k.Noun + " once", k.testPages},
		{"a page ends before it holds too many bytes", k.testPageBytes},
		{"a cancelled context is an error and changes nothing", k.testCancelled},
	})
}

// Test is a test of a store without records.
type Test[S any] struct {
	Name string
	Run  func(t *testing.T, s S)
}

// RunAll runs tests in parallel, each with a store of its own.
func RunAll[S any](t *testing.T, open func(t *testing.T) S, tests []Test[S]) {
	for _, tt := range tests {
		t.Run(tt.Name, func(t *testing.T) {
			t.Parallel()
			tt.Run(t, open(t))
		})
	}
}

// Fill creates records, many at once: concurrent creates of different ids must not
// lose any.
func (k Kind[R, S]) Fill(t *testing.T, s S, workspace string, records ...R) {
	t.Helper()
	slots := make(chan struct{}, 32)
	var wg sync.WaitGroup
	for _, r := range records {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, created, err := s.Create(t.Context(), workspace, r); !created || err != nil {
				t.Errorf("create %s: created %v, error %v", k.ID(r), created, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// FillPlain creates a plain record of each id.
func (k Kind[R, S]) FillPlain(t *testing.T, s S, workspace string, ids ...string) {
	t.Helper()
	var records []R
	for _, id := range ids {
		records = append(records, k.Plain(id))
	}
	k.Fill(t, s, workspace, records...)
}

// Want checks that a workspace has exactly the records of want, and that all lists of
// it do.
func (k Kind[R, S]) Want(t *testing.T, s S, workspace string, want ...R) {
	t.Helper()
	for _, r := range want {
		if got, err := s.Get(t.Context(), workspace, k.ID(r)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("get %s of workspace %s: error %v\n got %+v\nwant %+v", k.ID(r), workspace, err, got, r)
		}
	}
	for _, l := range k.Lists(t.Context(), s, workspace) {
		page, more := l.Read(t, nil, 200)
		want := slices.SortedFunc(slices.Values(want), l.Compare)
		if more || !slices.EqualFunc(page, want, func(a, b R) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("list of workspace %s, more %v:\n got %+v\nwant %+v", workspace, more, page, want)
		}
	}
}

// WantNotFound checks that a workspace has no record of an id.
func (k Kind[R, S]) WantNotFound(t *testing.T, s S, workspace, id string) {
	t.Helper()
	if got, err := s.Get(t.Context(), workspace, id); !IsKind(err, record.NotFound) {
		t.Errorf("get %s of workspace %s: %+v, error %v; want kind NotFound", id, workspace, got, err)
	}
}

// IsKind reports whether err is a *record.Error of that kind.
func IsKind(err error, kind record.Kind) bool {
	var failure *record.Error
	return errors.As(err, &failure) && failure.Kind == kind
}

// At returns the instant of an RFC 3339 text.
func At(text string) record.Time {
	t, err := record.ParseTime(text)
	if err != nil {
		panic(err)
	}
	return t
}

// Samples returns records of all kinds of content, each with an id of its own.
func (k Kind[R, S]) Samples() []R {
	samples := append([]R{k.Plain("plain"), k.Plain(strings.Repeat("x", record.MaxIDLength))}, k.Extra...)
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
		samples = append(samples, k.With(k.Plain(fmt.Sprintf("attributes-%d", i)), "label", record.Attributes(attributes)))
	}
	for i, label := range []string{"<&>", `"\`, "\x00\x1f\x7f", "\u2028\ufeff\ufffe", " ", strings.Repeat("😀", record.MaxNameLength)} {
		samples = append(samples, k.With(k.Plain(fmt.Sprintf("label-%d", i)), label, record.Attributes(`{}`)))
	}
	return samples
}

func (k Kind[R, S]) testReadBack(t *testing.T, s S) {
	samples := k.Samples()
	for _, want := range samples {
		if stored, created, err := s.Create(t.Context(), Workspace, want); !created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
		}
		if stored, created, err := s.Create(t.Context(), Workspace, k.Variant(k.ID(want), 1)); created || err != nil || !reflect.DeepEqual(stored, want) {
			t.Errorf("create again: created %v, error %v\n got %+v\nwant %+v", created, err, stored, want)
		}
	}
	k.Want(t, s, Workspace, samples...)
}

func (k Kind[R, S]) testRepeat(t *testing.T, s S) {
	first := k.Plain("a")
	k.Fill(t, s, Workspace, first)
	for _, again := range []R{first, k.Variant("a", 1)} {
		stored, created, err := s.Create(t.Context(), Workspace, again)
		if created || err != nil || !reflect.DeepEqual(stored, first) {
			t.Errorf("create %+v: created %v, error %v, stored %+v", again, created, err, stored)
		}
	}
	k.Want(t, s, Workspace, first)
}

func (k Kind[R, S]) testOneWinner(t *testing.T, s S) {
	const workers = 24
	stored := make([]R, workers)
	var winners, winner atomic.Int64
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			<-start
			got, created, err := s.Create(t.Context(), Workspace, k.Variant("a", i))
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
		t.Fatalf("%d creates say that they created the record", winners.Load())
	}
	want := k.Variant("a", int(winner.Load()))
	for i, got := range stored {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("create %d returned %+v, want %+v", i, got, want)
		}
	}
	k.Want(t, s, Workspace, want)
}

func (k Kind[R, S]) testWorkspaces(t *testing.T, s S) {
	workspaces := []string{"a", "ab", "A", "a.b", "a:", "b", "entities", "events", "é"}
	for i, w := range workspaces {
		k.Fill(t, s, w, k.Variant("shared", i), k.Plain("only-"+w))
	}
	for i, w := range workspaces {
		k.Want(t, s, w, k.Variant("shared", i), k.Plain("only-"+w))
	}
	k.WantNotFound(t, s, "a", "only-ab")
	k.WantNotFound(t, s, "ab", "only-a")
	k.Want(t, s, "abc")
}

func (k Kind[R, S]) testNotFound(t *testing.T, s S) {
	k.WantNotFound(t, s, Workspace, "a") // in a workspace without records
	k.FillPlain(t, s, Workspace, "ab", "b")
	k.FillPlain(t, s, "other", "a")
	for _, id := range []string{"a", "aba", "B", "b."} {
		k.WantNotFound(t, s, Workspace, id)
	}
}

func (k Kind[R, S]) testPages(t *testing.T, s S) {
	var records []R
	for i := range 12 {
		// Three are of one variant, so that pages end between those.
		records = append(records, k.Variant(fmt.Sprintf("%02d", 99-i), i/3))
	}
	k.Fill(t, s, Workspace, records...)
	k.FillPlain(t, s, Workspace+"-neighbor", "00", "99")
	for _, l := range k.Lists(t.Context(), s, Workspace) {
		l.Check(t, records, 1, 2, 3, 4, 5, 6, 11, 12, 13, 200)
	}
}

func (k Kind[R, S]) testPageBytes(t *testing.T, s S) {
	const count, recordBytes = 15, 250_000
	var records []R
	for i := range count {
		large := record.Attributes(`{"a":"` + strings.Repeat("<", recordBytes) + `"}`)
		records = append(records, k.With(k.Variant(fmt.Sprintf("%02d", i), i), "large", large))
	}
	k.Fill(t, s, Workspace, records...)
	for _, l := range k.Lists(t.Context(), s, Workspace) {
		want := slices.SortedFunc(slices.Values(records), l.Compare)
		for _, limit := range []int{4, 5, 10, 15, 200} {
			pages := l.Walk(t, nil, limit)
			if got := slices.Concat(pages...); !slices.EqualFunc(got, want, func(a, b R) bool { return k.ID(a) == k.ID(b) }) {
				t.Errorf("limit %d: %d records, or in another order", limit, len(got))
			}
			for i, page := range pages {
				size := 0
				for _, r := range page {
					size += len(k.Attributes(r))
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

func (k Kind[R, S]) testCancelled(t *testing.T, s S) {
	k.FillPlain(t, s, Workspace, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := k.Others(ctx, s)
	_, _, calls["create"] = s.Create(ctx, Workspace, k.Plain("b"))
	_, calls["get"] = s.Get(ctx, Workspace, "a")
	_, _, calls["list"] = k.Lists(ctx, s, Workspace)[0].Page(nil, 1)
	for call, err := range calls {
		if !IsKind(err, record.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v; want kind Unavailable because of %v", call, err, context.Canceled)
		}
	}
	k.WantNotFound(t, s, Workspace, "b")
	k.Want(t, s, Workspace, k.Plain("a"))
}
