package access

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

type oneKey struct {
	key   Key
	reads int
}

func (s *oneKey) Get(_ context.Context, id string) (Key, error) {
	if id == s.key.ID {
		s.reads++
		return s.key, nil
	}
	return Key{}, ErrNotFound
}

func TestUnknownIDsAreBoundedAndEvictNoKeys(t *testing.T) {
	now := time.Now()
	k, token, err := New(Key{Workspace: "w", Scopes: Scopes()}, now)
	if err != nil {
		t.Fatal(err)
	}
	s := &oneKey{key: k}
	a, err := NewAuthenticator(s, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token Token, reason Reason) {
		t.Helper()
		if d, err := a.Authenticate(t.Context(), token.Reveal(), netip.Addr{}); err != nil || d.Refused != reason {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	ask(token, "")
	for range 10 * maxCached {
		ask(Token{ID: randomText(idLength), secret: token.secret}, ReasonUnknown)
		if n := len(a.absent); n > maxCached {
			t.Fatalf("%d unknown ids are cached", n)
		}
	}
	ask(token, "")
	if s.reads != 1 || len(a.known) != 1 {
		t.Errorf("the key was read %d times; %d keys are cached", s.reads, len(a.known))
	}
}

// A cache keeps the entry that was added last, and never has more than maxCached entries.
func TestTheCacheIsBounded(t *testing.T) {
	a, err := NewAuthenticator(new(oneKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := a.cached("a"); ok {
		t.Error("an empty cache has an entry")
	}
	for _, entries := range []*map[string]entry{&a.known, &a.absent} {
		for n := range 3 * maxCached {
			id := randomText(idLength)
			a.put(entries, id, entry{key: Key{ID: id}, readAt: time.Now()})
			if e, ok := a.cached(id); !ok || e.key.ID != id {
				t.Fatal("the last entry is not cached")
			}
			if got := len(*entries); got > maxCached || n < maxCached && got != n+1 {
				t.Fatalf("%d entries after %d", got, n+1)
			}
		}
	}
}
