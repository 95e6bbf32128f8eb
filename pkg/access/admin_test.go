package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/pkg/access"
)

// managed is an access.Manager in memory, with the rules of Create.
type managed struct {
	access.Manager
	keys map[string]access.Key
}

func (m managed) create(k access.Key) error {
	if k.MadeBy != "" {
		maker, ok := m.keys[k.MadeBy]
		if !ok {
			return access.ErrMaker
		}
		if err := maker.AddMade(k); err != nil {
			return err
		}
		m.keys[maker.ID] = maker
	}
	m.keys[k.ID] = k
	return nil
}

func (m managed) List(context.Context, string, string, int) (all []access.Key, next string, err error) {
	for _, k := range m.keys {
		all = append(all, k)
	}
	return all, "", nil
}

func (m managed) Revoke(_ context.Context, id string, at time.Time) (access.Key, error) {
	k := m.keys[id]
	k.RevokedAt = at
	m.keys[id] = k
	return k, nil
}

var blockTexts = []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "192.0.2.0/24", "::/0", "2001:db8::/32"}

// someKey draws a key; in most of the cases, it has only some of the scopes, and no other wish.
func someKey(rt *rapid.T, scopes []access.Scope, now time.Time) access.Key {
	wild := func(what string) bool { return rapid.IntRange(0, 4).Draw(rt, what) == 0 }
	if wild("any scope") {
		scopes = access.Scopes()
	}
	k := access.Key{
		Scopes: rapid.SliceOfNDistinct(rapid.SampledFrom(scopes), 1, len(scopes), rapid.ID).Draw(rt, "scopes"),
	}
	if wild("any workspace") {
		k.Workspace = rapid.SampledFrom([]string{"own", "other"}).Draw(rt, "workspace")
	}
	if wild("any plan") {
		k.Plan = "pro"
	}
	if wild("any address") {
		for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom(blockTexts), 1, 3, rapid.ID).Draw(rt, "from") {
			k.From = append(k.From, netip.MustParsePrefix(text))
		}
	}
	if days := rapid.IntRange(1, 3).Draw(rt, "days"); wild("any expiry") {
		k.ExpiresAt = now.AddDate(0, 0, days)
	}
	return k
}

// probes has an address inside and outside of each block.
var probes = []string{"10.1.2.3", "10.1.9.9", "10.9.9.9", "192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db9::1"}

func accepts(k access.Key, probe string) bool {
	addr := netip.MustParseAddr(probe)
	return len(k.From) == 0 || slices.ContainsFunc(k.From, func(b netip.Prefix) bool { return b.Contains(addr) })
}

// within returns what k has that first lacks, or "". The bounds do not use package access's own checks.
func beyond(first, k access.Key) string {
	all := slices.Contains(first.Scopes, access.Admin) && slices.Contains(first.Scopes, access.Operator)
	manages := slices.Contains(k.Scopes, access.Admin) || slices.Contains(k.Scopes, access.Operator)
	for _, s := range k.Scopes {
		if !slices.Contains(first.Scopes, s) {
			return "the scope " + string(s)
		}
	}
	switch {
	case !all && k.Workspace != first.Workspace:
		return "the workspace " + k.Workspace
	case !all && k.Plan != "":
		return "a plan"
	case !all && k.CountedAs != first.ID:
		return "limits of its own"
	case !all && manages:
		return "the means to manage"
	case all && !manages: // it may serve any client, and cannot make keys
		return ""
	case !first.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(first.ExpiresAt)):
		return "a later expiry"
	}
	for _, p := range probes {
		if accepts(k, p) && !accepts(first, p) {
			return "the address " + p
		}
	}
	return ""
}

// No chain makes what its first maker could not: however keys with any scopes make keys with any
// wishes, and these make keys, none has what a key that led to it lacks. A key is revoked only by one
// that could have made it, and no more than MaxMade are counted as one.
func TestChainsOfKeysStayWithinTheirFirstMaker(t *testing.T) {
	made, refused, deepest := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		now := now()
		m := managed{keys: make(map[string]access.Key)}
		root := someKey(rt, access.Scopes(), now)
		if root.Scopes = append(root.Scopes, access.Admin); rapid.Bool().Draw(rt, "operator") {
			root.Scopes = access.Scopes()
		}
		if root.Workspace == "" {
			root.Workspace = "own"
		}
		first, _, err := access.New(root, now)
		if err != nil {
			rt.Fatal(err)
		}
		m.keys[first.ID] = first
		order, depth := []string{first.ID}, map[string]int{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			by := m.keys[rapid.SampledFrom(order).Draw(rt, "by")]
			if !by.Has(access.Admin) || by.Status(now) != access.Active {
				continue
			}
			k, _, err := by.Make(someKey(rt, by.Scopes, now), now)
			if err == nil {
				err = m.create(k)
			}
			if _, isBeyond := errors.AsType[*access.BeyondError](err); err != nil && !isBeyond {
				rt.Fatal(err)
			}
			if err != nil {
				refused++
				continue
			}
			made++
			order = append(order, k.ID)
			depth[k.ID] = depth[by.ID] + 1
			deepest = max(deepest, depth[k.ID])
			for id := k.MadeBy; id != ""; id = m.keys[id].MadeBy {
				if what := beyond(m.keys[id], k); what != "" {
					rt.Fatalf("%+v\nhas %s, which its maker, or the maker of that, lacks:\n%+v", k, what, m.keys[id])
				}
			}
			if !k.ManagesAll() && k.CheckRevoke(by, false) == nil && beyond(k, by) != "limits of its own" && beyond(k, by) != "" {
				rt.Fatalf("%+v\ncan revoke its maker:\n%+v", k, by)
			}
		}
		if _, _, err := access.Revoke(context.Background(), m, first.ID, true, now); err != nil {
			rt.Fatal(err)
		}
		for _, k := range m.keys {
			if k.RevokedAt.IsZero() && first.ManagesAll() {
				rt.Fatalf("%+v is left, although it was made by a key that is revoked with what it made", k)
			}
		}
	})
	t.Logf("%d keys made, %d refused, the longest chain has %d", made, refused, deepest)
	if made == 0 || refused == 0 || deepest < 3 {
		t.Error("the chains are too short to show anything")
	}
}

func TestABlockOfAddressesIsWithinAnother(t *testing.T) {
	by := access.Key{Workspace: "w", Scopes: []access.Scope{access.Admin}, From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("192.0.2.128/25")}}
	for block, want := range map[string]bool{"192.0.2.0/26": true, "192.0.2.0/25": true, "192.0.2.0/24": false, "192.0.3.0/25": false, "::/0": false, "0.0.0.0/0": false} {
		k := access.Key{Workspace: "w", Scopes: []access.Scope{access.Export}, From: []netip.Prefix{netip.MustParsePrefix(block)}}
		by.Scopes = []access.Scope{access.Admin, access.Export}
		if _, _, err := by.Make(k, now()); (err == nil) != want {
			t.Errorf("%s: %v", block, err)
		}
	}
}

func TestExpiredKeysDoNotCountForTheirMaker(t *testing.T) {
	maker := access.Key{ID: "aaaaaaaaaaaa"}
	for i := range access.MaxMade {
		k := access.Key{ID: fmt.Sprintf("key%d", i), CountedAs: maker.ID, CreatedAt: now()}
		if i < 2 {
			k.ExpiresAt = now().Add(time.Hour)
		}
		if err := maker.AddMade(k); err != nil {
			t.Fatal(err)
		}
	}
	next := access.Key{ID: "next", CountedAs: maker.ID, CreatedAt: now().Add(time.Hour - time.Millisecond)}
	if err := maker.AddMade(next); !errors.Is(err, access.ErrTooManyMade) {
		t.Errorf("before they expire: %v", err)
	}
	next.CreatedAt = now().Add(time.Hour)
	if err := maker.AddMade(next); err != nil || len(maker.Made) != access.MaxMade-1 {
		t.Errorf("when they have expired: %v, %d keys", err, len(maker.Made))
	}
	maker.RevokedAt = now()
	if err := maker.AddMade(access.Key{ID: "later"}); !errors.Is(err, access.ErrMaker) {
		t.Errorf("when it is revoked: %v", err)
	}
}
