package access_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

type store struct {
	mu    sync.Mutex
	keys  map[string]access.Key
	reads map[string]int // by id
	err   error          // returned by every read
	delay time.Duration  // duration of every read
}

func newStore(keys ...access.Key) *store {
	s := &store{keys: make(map[string]access.Key), reads: make(map[string]int)}
	for _, k := range keys {
		s.keys[k.ID] = k
	}
	return s
}

func (s *store) Get(ctx context.Context, id string) (access.Key, error) {
	s.mu.Lock()
	s.reads[id]++
	k, ok := s.keys[id]
	err, delay := s.err, s.delay
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return access.Key{}, ctx.Err()
		}
	}
	if !ok && err == nil {
		err = access.ErrNotFound
	}
	return k, err
}

func (s *store) revoke(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[id]
	k.RevokedAt = at
	s.keys[id] = k
}

func (s *store) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[id]
}

func newAuthenticator(t testing.TB, s access.Store, clock func() time.Time) *access.Authenticator {
	t.Helper()
	a, err := access.NewAuthenticator(s, clock)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var client = netip.MustParseAddr("192.0.2.1")

// want checks why a token is refused; an empty reason means that the token must be accepted.
func want(t *testing.T, a *access.Authenticator, text string, reason access.Reason) {
	t.Helper()
	d, err := a.Authenticate(t.Context(), text, client)
	if err != nil || d.Refused != reason || (d.Key.ID == "") != (reason != "") {
		t.Errorf("refused for %q with the key %q, error %v; want %q", d.Refused, d.Key.ID, err, reason)
	}
}

func TestDecisions(t *testing.T) {
	good, token := newKey(t)
	revoked, revokedToken := newKey(t)
	revoked.RevokedAt = now()
	expired, expiredToken := newKey(t)
	expired.ExpiresAt = now()
	_, unknown := newKey(t)
	a := newAuthenticator(t, newStore(good, revoked, expired), now)
	swapped := func(id, secret access.Token) string {
		return "slc_" + id.ID + secret.Reveal()[strings.LastIndexByte(secret.Reveal(), '_'):]
	}
	for range 2 { // the first round reads the store, the second uses the cache
		want(t, a, token.Reveal(), "")
		want(t, a, "", access.ReasonMalformed)
		want(t, a, token.Reveal()+"2", access.ReasonMalformed)
		want(t, a, unknown.Reveal(), access.ReasonUnknown)
		want(t, a, swapped(token, unknown), access.ReasonWrongSecret)
		want(t, a, swapped(token, revokedToken), access.ReasonWrongSecret)
		want(t, a, revokedToken.Reveal(), access.ReasonRevoked)
		want(t, a, expiredToken.Reveal(), access.ReasonExpired)
		// Whoever lacks the secret must not learn that the key is revoked.
		want(t, a, swapped(revokedToken, token), access.ReasonWrongSecret)
	}
}

func TestAKeyIsAcceptedOnlyFromItsBlocks(t *testing.T) {
	k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes(), From: []netip.Prefix{
		netip.MustParsePrefix("2001:db8::/126"), netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("192.0.2.0/25"),
	}}, now())
	if len(k.From) != 2 {
		t.Errorf("the blocks are %v, want them without repetition", k.From)
	}
	a := newAuthenticator(t, newStore(k), now)
	for address, reason := range map[string]access.Reason{
		"192.0.2.0": "", "192.0.2.127": "", "192.0.2.128": access.ReasonAddress, "::ffff:192.0.2.1": "", "::ffff:192.0.2.128": access.ReasonAddress,
		"2001:db8::3": "", "2001:db8::3%eth0": "", "2001:db8::4": access.ReasonAddress,
	} {
		if d, err := a.Authenticate(t.Context(), token.Reveal(), netip.MustParseAddr(address)); err != nil || d.Refused != reason {
			t.Errorf("%s: refused for %q, error %v; want %q", address, d.Refused, err, reason)
		}
	}
	if d, err := a.Authenticate(t.Context(), token.Reveal(), netip.Addr{}); err != nil || d.Refused != access.ReasonAddress {
		t.Errorf("no address: refused for %q, error %v", d.Refused, err)
	}
}

func TestARevokedKeyIsRefusedWithinAMinuteAndAtOnceIfItIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
		s := newStore(k)
		a := newAuthenticator(t, s, nil)
		want(t, a, token.Reveal(), "")
		time.Sleep(time.Millisecond)
		s.revoke(k.ID, time.Now())
		time.Sleep(time.Minute - 2*time.Millisecond)
		want(t, a, token.Reveal(), "") // the cached key is 59.999 s old
		want(t, newAuthenticator(t, s, nil), token.Reveal(), access.ReasonRevoked)
		time.Sleep(time.Millisecond)
		want(t, a, token.Reveal(), access.ReasonRevoked) // 59.999 s after the revocation
	})
}

// The age of a cached key is counted from the start of the read.
func TestAKeyFromASlowReadIsNotCachedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
		s := newStore(k)
		s.delay = time.Second
		a := newAuthenticator(t, s, nil)
		want(t, a, token.Reveal(), "") // takes a second
		s.revoke(k.ID, time.Now())
		time.Sleep(time.Minute - time.Second)
		want(t, a, token.Reveal(), access.ReasonRevoked)
	})
}

func TestACachedKeyExpiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes(), ExpiresAt: time.Now().Add(10 * time.Second)}, time.Now())
		a := newAuthenticator(t, newStore(k), nil)
		time.Sleep(10*time.Second - time.Nanosecond)
		want(t, a, token.Reveal(), "")
		time.Sleep(time.Nanosecond)
		want(t, a, token.Reveal(), access.ReasonExpired)
	})
}

func TestAKeyIsReadEvery45SecondsAndAnUnknownIDOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
		revoked, revokedToken := newKey(t)
		revoked.RevokedAt = now()
		expired, expiredToken := newKey(t)
		expired.ExpiresAt = time.Now()
		unknown, unknownToken := newKey(t)
		s := newStore(k, revoked, expired)
		a := newAuthenticator(t, s, nil)
		for range 600 { // one request per second for each id, for ten minutes
			want(t, a, token.Reveal(), "")
			want(t, a, revokedToken.Reveal(), access.ReasonRevoked)
			want(t, a, expiredToken.Reveal(), access.ReasonExpired)
			want(t, a, unknownToken.Reveal(), access.ReasonUnknown)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for id, want := range map[string]int{k.ID: 14, revoked.ID: 14, expired.ID: 14, unknown.ID: 10} {
			if n := s.count(id); n != want {
				t.Errorf("in ten minutes %s was read %d times, want %d", id, n, want)
			}
		}
	})
}

// After the clock is set back, cached keys seem to be from the future.
func TestKeysAreReadAgainAfterTheClockWasSetBack(t *testing.T) {
	k, token := newKey(t)
	s, clock := newStore(k), now()
	a := newAuthenticator(t, s, func() time.Time { return clock })
	want(t, a, token.Reveal(), "")
	clock = clock.Add(-time.Millisecond)
	want(t, a, token.Reveal(), "")
	if s.count(k.ID) != 2 {
		t.Errorf("%d reads, want 2", s.count(k.ID))
	}
}

func TestConcurrentRequestsShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := newKey(t)
		s := newStore(k)
		s.delay = time.Second
		a := newAuthenticator(t, s, nil)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { want(t, a, token.Reveal(), "") })
		}
		wg.Wait()
		if s.count(k.ID) != 1 {
			t.Errorf("%d reads", s.count(k.ID))
		}
	})
}

// When the caller that began a read gives up, other callers still get the result.
func TestAReadOutlivesTheCallerThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := newKey(t)
		s := newStore(k)
		s.delay = time.Second
		a := newAuthenticator(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		first, waiting, gone := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		ask := func(ctx context.Context, result chan error) {
			_, err := a.Authenticate(ctx, token.Reveal(), client)
			result <- err
		}
		start := time.Now()
		go ask(ctx, first)
		synctest.Wait()
		go ask(t.Context(), waiting)
		go ask(ctx, gone)
		synctest.Wait()
		cancel()
		for name, result := range map[string]chan error{"the first": first, "the one that waits": gone} {
			if err := <-result; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
				t.Errorf("%s: error %v after %s", name, err, time.Since(start))
			}
		}
		if err := <-waiting; err != nil || time.Since(start) != time.Second {
			t.Errorf("the other caller: error %v after %s", err, time.Since(start))
		}
		want(t, a, token.Reveal(), "")
		if s.count(k.ID) != 1 {
			t.Errorf("%d reads", s.count(k.ID))
		}
	})
}

func TestAFailedReadIsAnErrorAndIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
		s := newStore(k)
		a := newAuthenticator(t, s, nil)
		want(t, a, token.Reveal(), "")
		time.Sleep(time.Minute)
		s.err = errors.New("away")
		for range 2 {
			// The cached key is too old to be used instead of the failed read.
			if d, err := a.Authenticate(t.Context(), token.Reveal(), client); !errors.Is(err, s.err) || d.Key.ID != "" || d.KeyID != k.ID || strings.Contains(err.Error(), token.Reveal()) {
				t.Errorf("%+v, %v", d, err)
			}
		}
		s.err = nil
		want(t, a, token.Reveal(), "")
		s.delay = time.Hour
		time.Sleep(time.Minute)
		start := time.Now()
		if _, err := a.Authenticate(t.Context(), token.Reveal(), client); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestAnInvalidStoredKeyIsAnError(t *testing.T) {
	k, token := newKey(t)
	k.Workspace = "a#b"
	if _, err := newAuthenticator(t, newStore(k), now).Authenticate(t.Context(), token.Reveal(), client); err == nil {
		t.Error("no error")
	}
}

type panicking struct{}

func (panicking) Get(context.Context, string) (access.Key, error) { panic("broken") }

func TestAPanicOfTheStoreIsAnErrorForEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, token := newKey(t)
		a := newAuthenticator(t, panicking{}, now)
		for range 2 {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					d, err := a.Authenticate(t.Context(), token.Reveal(), client)
					if err == nil || !strings.Contains(err.Error(), "panic: broken") || !strings.Contains(err.Error(), "panicking") || d.Key.ID != "" {
						t.Errorf("%+v, error %v", d, err)
					}
				})
			}
			wg.Wait()
		}
	})
}
