package access_test

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

func nat(n byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 32) }

// forged returns a token that belongs to no key.
func forged(t *testing.T) string {
	_, token := newKey(t)
	return token.Reveal()
}

func TestReadsOfUnknownIDsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, token := newKey(t)
		s := newStore(k)
		a := newAuthenticator(t, s, nil)
		var first string // an id that has proved invalid
		guess := func(from byte, want int) {
			t.Helper()
			checked := 0
			for range 2 * max(want, 10) {
				text := forged(t)
				first = max(first, text)
				d, err := a.Precheck(t.Context(), text, client, nat(from))
				switch {
				case err == nil && d.Refused == access.ReasonUnknown:
					checked++
				case !errors.Is(err, access.ErrGuessing) || d.KeyID == "" || d.Refused != "" || d.Key.ID != "":
					t.Fatalf("%+v, error %v", d, err)
				}
			}
			if checked != want {
				t.Errorf("%d tokens from client %d were checked, want %d", checked, from, want)
			}
		}
		guess(1, 10)
		for n := byte(2); n < 6; n++ {
			guess(n, 10)
		}
		guess(6, 0) // 50 of the instance
		if _, err := a.Precheck(t.Context(), token.Reveal(), client, nat(1)); !errors.Is(err, access.ErrGuessing) || s.count(k.ID) != 0 {
			t.Errorf("the first use of a key beyond the bound: %v after %d reads", err, s.count(k.ID))
		}
		want(t, a, token.Reveal(), "") // after the charge
		for range 100 {
			if d, err := a.Precheck(t.Context(), token.Reveal(), client, nat(1)); err != nil || d.Key.ID != k.ID {
				t.Fatalf("a key that was found before: %+v, %v", d, err)
			}
		}
		if d, err := a.Precheck(t.Context(), "slc_", client, nat(1)); err != nil || d.Refused != access.ReasonMalformed {
			t.Errorf("a malformed token: %+v, %v", d, err)
		}
		time.Sleep(time.Second)
		guess(1, 10)
		time.Sleep(2 * time.Minute) // the copy of the key is too old, but its id is known
		guess(1, 10)
		if d, err := a.Precheck(t.Context(), token.Reveal(), client, nat(1)); err != nil || d.Key.ID != k.ID {
			t.Errorf("after two minutes: %+v, %v", d, err)
		}
	})
}

// As after a restart: valid keys that nobody has read yet use nothing up, even all at once.
func TestTwoThousandKeysBehindOneNATAreAllChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, takes = 2000, 5 * time.Millisecond
		var stored []access.Key
		var tokens []string
		for range keys {
			k, token := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, now())
			stored, tokens = append(stored, k), append(tokens, token.Reveal())
		}
		s := newStore(stored...)
		s.delay = takes
		a := newAuthenticator(t, s, nil)
		begun := time.Now()
		var accepted atomic.Int64
		var wg sync.WaitGroup
		for _, token := range tokens {
			wg.Go(func() {
				d, err := a.Precheck(t.Context(), token, client, nat(1))
				if err != nil || d.Key.ID == "" {
					t.Errorf("%+v, error %v", d, err)
				}
				accepted.Add(1)
			})
		}
		wg.Wait()
		if took := time.Since(begun); accepted.Load() != keys || took != keys/10*takes {
			t.Errorf("%d accepted after %v", accepted.Load(), took)
		}
	})
}

// Reads in progress may fail too, so they count until they end.
func TestConcurrentGuessesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.delay = 10 * time.Millisecond
		a := newAuthenticator(t, s, nil)
		var checked atomic.Int64
		var wg sync.WaitGroup
		for n := range 1000 {
			text := forged(t)
			wg.Go(func() {
				if _, err := a.Precheck(t.Context(), text, client, nat(byte(n%100))); err == nil {
					checked.Add(1)
				}
			})
		}
		wg.Wait()
		if checked.Load() != 50 {
			t.Errorf("%d tokens were checked", checked.Load())
		}
	})
}
