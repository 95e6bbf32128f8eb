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
	if keys, err := s.List(t.Context()); err != nil || len(keys) != 2 {
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
	if keys, err := s.List(t.Context()); err != nil || len(keys) != 0 {
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
	if got, err := s.List(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
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
	if got, err := s.List(t.Context()); err != nil || !slices.EqualFunc(got, []access.Key{want, other}, func(a, b access.Key) bool { return reflect.DeepEqual(a, b) }) {
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
	_, listErr := s.List(ctx)
	for op, err := range map[string]error{"get": getErr, "list": listErr, "create": s.Create(ctx, k)} {
		if err == nil || errors.Is(err, access.ErrNotFound) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
