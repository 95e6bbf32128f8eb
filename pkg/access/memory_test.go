package access

import (
	"context"
	"testing"
	"time"
)

// none is a store without keys but one.
type none struct {
	key   Key
	reads int
}

func (s *none) Get(_ context.Context, id string) (Key, error) {
	if id == s.key.ID {
		s.reads++
		return s.key, nil
	}
	return Key{}, ErrNotFound
}

// A flood of ids that nobody has neither fills the memory nor crowds out keys.
func TestAFloodOfUnknownIDsIsForgotten(t *testing.T) {
	now := time.Now()
	k, token, err := New(Key{Workspace: "w", Scopes: Scopes()}, now)
	if err != nil {
		t.Fatal(err)
	}
	s := &none{key: k}
	a, err := NewAuthenticator(s, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token Token, reason Reason) {
		t.Helper()
		if d, err := a.Authenticate(t.Context(), token.Reveal()); err != nil || d.Refused != reason {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	ask(token, "")
	for range 10 * maxCached {
		ask(Token{ID: randomText(idLength), secret: token.secret}, ReasonUnknown)
		if n := len(a.absent.young) + len(a.absent.old); n > 2*maxCached {
			t.Fatalf("%d unknown ids are remembered", n)
		}
	}
	ask(token, "")
	if s.reads != 1 || len(a.known.young)+len(a.known.old) != 1 {
		t.Errorf("the key was read %d times; %d keys are remembered", s.reads, len(a.known.young)+len(a.known.old))
	}
}

// What is asked for stays while what is not is forgotten.
func TestTheCacheForgetsTheOldest(t *testing.T) {
	var c cache
	c.put("kept", entry{found: true})
	for range 5 * maxCached {
		c.put(randomText(idLength), entry{})
		if e, ok := c.get("kept"); !ok || !e.found {
			t.Fatal("what is asked for was forgotten")
		}
	}
	if n := len(c.young) + len(c.old); n > 2*maxCached {
		t.Errorf("%d entries", n)
	}
}
