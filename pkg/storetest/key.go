package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/record"
)

var keyStart = time.Date(2026, 1, 2, 15, 4, 5, 678_000_000, time.UTC)

// newKey returns a key created n milliseconds after keyStart.
func newKey(t *testing.T, k access.Key, n int) access.Key {
	t.Helper()
	k, _ = secrettest.New(t, k, keyStart.Add(time.Duration(n)*time.Millisecond))
	return k
}

var plainKey = access.Key{Workspace: "default", Scopes: []access.Scope{access.Export}}

// Keys tests an access.Manager. open returns a Manager without keys.
func Keys(t *testing.T, open func(t *testing.T) access.Manager) {
	runAll(t, open, []test[access.Manager]{
		{name: "get returns a key as it was created", run: testKeyReadBack},
		{name: "a key that does not exist is not found", run: testKeyNotFound},
		{name: "an id that exists is rejected", run: testTakenID},
		{name: "a list is in the order of creation", run: testKeyOrder},
		{name: "a second revocation changes nothing", run: testRevoke},
		{name: "a plan is set and removed", run: testKeyPlan},
		{name: "a list has the keys of a workspace, page by page", run: testKeyPages},
		{name: "a key with a maker needs a valid one", run: testKeyMaker},
		{name: "the keys that count for a maker are exact, however many are created at the same time", run: testKeysMade},
		{name: "one of several concurrent creations with the same id succeeds", run: testKeyOneWinner},
		{name: "a cancelled context is an error other than ErrNotFound", run: testKeyCancelled},
	})
}

func testKeyReadBack(t *testing.T, s access.Manager) {
	for n, k := range []access.Key{
		plainKey,
		{Name: "Ada's laptop <&> 😀", Workspace: "A-z_0.9", Scopes: access.Scopes(), ExpiresAt: keyStart.Add(time.Hour)},
		{Workspace: "w", Scopes: []access.Scope{access.Import, access.Dashboard}},
		{Workspace: "w", Scopes: []access.Scope{access.Import}, From: []netip.Prefix{netip.MustParsePrefix("2001:db8::1/128"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("9.0.0.0/8")}},
	} {
		k = newKey(t, k, n)
		if err := s.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), k.ID)
		if err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("got %+v, error %v; want %+v", got, err, k)
		}
	}
}

func testKeyNotFound(t *testing.T, s access.Manager) {
	k := newKey(t, plainKey, 0)
	for _, when := range []string{"without keys", "with another key"} {
		if _, err := s.Get(t.Context(), k.ID); !errors.Is(err, access.ErrNotFound) {
			t.Errorf("get %s: %v", when, err)
		}
		if _, err := s.Revoke(t.Context(), k.ID, keyStart); !errors.Is(err, access.ErrNotFound) {
			t.Errorf("revoke %s: %v", when, err)
		}
		if err := s.Create(t.Context(), newKey(t, plainKey, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := access.All(t.Context(), s, ""); err != nil || len(keys) != 2 {
		t.Errorf("keys after failed calls: %+v, %v", keys, err)
	}
}

func testTakenID(t *testing.T, s access.Manager) {
	k, other := newKey(t, plainKey, 0), newKey(t, plainKey, 0)
	other.ID = k.ID
	if err := s.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), other); !errors.Is(err, access.ErrExists) {
		t.Errorf("error %v", err)
	}
	if got, err := s.Get(t.Context(), k.ID); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("the first key is %+v, error %v", got, err)
	}
}

func testKeyOrder(t *testing.T, s access.Manager) {
	if keys, err := access.All(t.Context(), s, ""); err != nil || len(keys) != 0 {
		t.Errorf("list of an empty store: %+v, %v", keys, err)
	}
	var want []access.Key
	for n := range 20 {
		want = append(want, newKey(t, access.Key{Workspace: fmt.Sprintf("w%d", n%3), Scopes: access.Scopes()}, n))
	}
	for i := range want {
		if err := s.Create(t.Context(), want[(i*7)%len(want)]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := access.All(t.Context(), s, ""); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

func testRevoke(t *testing.T, s access.Manager) {
	k, other := newKey(t, plainKey, 0), newKey(t, plainKey, 1)
	for _, k := range []access.Key{k, other} {
		if err := s.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	want := k
	want.RevokedAt = keyStart.Add(time.Minute)
	for _, at := range []time.Time{want.RevokedAt, keyStart.Add(time.Hour)} {
		if got, err := s.Revoke(t.Context(), k.ID, at); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("revoke: %+v, error %v; want %+v", got, err, want)
		}
	}
	if got, err := s.Get(t.Context(), k.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("get: %+v, error %v; want %+v", got, err, want)
	}
	if got, err := access.All(t.Context(), s, ""); err != nil || !slices.EqualFunc(got, []access.Key{want, other}, func(a, b access.Key) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("list: %+v, error %v", got, err)
	}
}

func testKeyPlan(t *testing.T, s access.Manager) {
	if _, err := s.SetPlan(t.Context(), "aaaaaaaaaaaa", "pro"); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("of no key: %v", err)
	}
	like := plainKey
	like.Plan = "free"
	k := newKey(t, like, 0)
	if err := s.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	for _, plan := range []string{"free", "pro", "", ""} {
		if plan != "free" {
			k.Plan = plan
			if got, err := s.SetPlan(t.Context(), k.ID, plan); err != nil || !reflect.DeepEqual(got, k) {
				t.Errorf("set %q: %+v, error %v", plan, got, err)
			}
		}
		if got, err := s.Get(t.Context(), k.ID); err != nil || !reflect.DeepEqual(got, k) {
			t.Errorf("get after %q: %+v, error %v", plan, got, err)
		}
	}
}

func testKeyOneWinner(t *testing.T, s access.Manager) {
	first := newKey(t, plainKey, 0)
	var created atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		k := newKey(t, plainKey, n)
		k.ID = first.ID
		wg.Go(func() {
			if err := s.Create(t.Context(), k); err == nil {
				created.Add(1)
			} else if !errors.Is(err, access.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != 1 {
		t.Errorf("%d creations succeeded, want 1", n)
	}
}

func testKeyCancelled(t *testing.T, s access.Manager) {
	k := newKey(t, plainKey, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := s.Get(ctx, k.ID)
	_, _, listErr := s.List(ctx, "", "", 10)
	for op, err := range map[string]error{"get": getErr, "list": listErr, "create": s.Create(ctx, k)} {
		if err == nil || errors.Is(err, access.ErrNotFound) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func testKeyPages(t *testing.T, s access.Manager) {
	want := make(map[string]int)
	for n := range 7 {
		k := newKey(t, access.Key{Workspace: fmt.Sprintf("w%d", n%2), Scopes: access.Scopes()}, n)
		want[k.Workspace]++
		want[""]++
		if err := s.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	for _, workspace := range []string{"w0", "w1", "", "none"} {
		seen, after := make(map[string]bool), ""
		for pages := 0; ; pages++ {
			keys, next, err := s.List(t.Context(), workspace, after, 2)
			if err != nil || len(keys) > 2 || pages > 7 {
				t.Fatalf("%d keys, error %v", len(keys), err)
			}
			for i, k := range keys {
				if workspace != "" && (k.Workspace != workspace || i > 0 && k.ID < keys[i-1].ID) {
					t.Errorf("%s: %+v", workspace, keys)
				}
				seen[k.ID] = true
			}
			if after = next; next == "" {
				break
			}
		}
		if len(seen) != want[workspace] {
			t.Errorf("%q: %d keys, want %d", workspace, len(seen), want[workspace])
		}
	}
}

func testKeyMaker(t *testing.T, s access.Manager) {
	maker := newKey(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, 0)
	made := func(n int) access.Key {
		k := newKey(t, plainKey, n)
		k.MadeBy = maker.ID
		return k
	}
	if err := s.Create(t.Context(), made(1)); !errors.Is(err, access.ErrMaker) {
		t.Errorf("of no key: %v", err)
	}
	if err := s.Create(t.Context(), maker); err != nil {
		t.Fatal(err)
	}
	k := made(2)
	if err := s.Create(t.Context(), k); err != nil {
		t.Error(err)
	}
	if err := s.Create(t.Context(), k); !errors.Is(err, access.ErrExists) {
		t.Errorf("again: %v", err)
	}
	if got, err := s.Get(t.Context(), k.ID); err != nil || !reflect.DeepEqual(got, k) {
		t.Errorf("got %+v, error %v; want %+v", got, err, k)
	}
	if _, err := s.Revoke(t.Context(), maker.ID, keyStart); err != nil {
		t.Error(err)
	}
	if err := s.Create(t.Context(), made(3)); !errors.Is(err, access.ErrMaker) {
		t.Errorf("of a revoked key: %v", err)
	}
}

func testKeysMade(t *testing.T, s access.Manager) {
	maker := newKey(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, 0)
	if err := s.Create(t.Context(), maker); err != nil {
		t.Fatal(err)
	}
	made := func(n int, expires time.Time) access.Key {
		k := newKey(t, plainKey, n)
		k.MadeBy, k.CountedAs, k.ExpiresAt = maker.ID, maker.ID, expires
		return k
	}
	expires := keyStart.Add(time.Minute)
	var first access.Key
	for n := range access.MaxMade - 2 {
		k := made(n, expires)
		if first = k; n >= 2 {
			k.ExpiresAt = time.Time{}
		}
		if err := s.Create(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	var created atomic.Int64
	var wg sync.WaitGroup
	for n := range 5 {
		wg.Go(func() {
			switch err := s.Create(t.Context(), made(1000+n, time.Time{})); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, access.ErrTooManyMade) && !isBusy(err):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n > 2 {
		t.Errorf("%d keys were created in the last two places", n)
	}
	for s.Create(t.Context(), made(2000, time.Time{})) == nil { // those that conflicted may have left room
	}
	if got, err := s.Get(t.Context(), maker.ID); err != nil || len(got.Made) != access.MaxMade {
		t.Errorf("%d keys count, error %v", len(got.Made), err)
	}
	if _, err := s.Revoke(t.Context(), first.ID, keyStart); err != nil {
		t.Error(err)
	}
	if err := s.Create(t.Context(), made(3000, time.Time{})); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
	if err := s.Create(t.Context(), made(4000, time.Time{})); !errors.Is(err, access.ErrTooManyMade) {
		t.Errorf("one more: %v", err)
	}
	if err := s.Create(t.Context(), made(int(time.Minute/time.Millisecond), time.Time{})); err != nil {
		t.Errorf("when two have expired: %v", err)
	}
}

func isBusy(err error) bool { return record.CodeOf(err) == record.Unavailable }
