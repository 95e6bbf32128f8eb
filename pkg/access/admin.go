package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/ratelimit"
)

// MaxMade is how many valid keys may be counted as the same key.
const MaxMade = 100

var (
	// ErrMaker means that a new key names a maker that does not exist or is revoked.
	ErrMaker = errors.New("the key that makes the key is revoked, or there is no such key")

	// ErrTooManyMade means that MaxMade valid keys are counted as the maker of a new one.
	ErrTooManyMade = fmt.Errorf("a key with the scope admin can have made %d keys that are valid; revoke some", MaxMade)
)

// A BeyondError says what a key would have that the key which makes or revokes it may not give.
type BeyondError struct {
	Field  string // of Key, as in JSON
	Detail string
}

func (e *BeyondError) Error() string { return "the " + e.Field + " " + e.Detail }

// ManagesAll reports whether k may manage all workspaces, plans and limits. With Admin and without
// Operator, a key manages only its own workspace.
func (k Key) ManagesAll() bool { return k.Has(Admin) && k.Has(Operator) }

func (k Key) manages() bool { return k.Has(Admin) || k.Has(Operator) }

// Make is New for a key that the key by makes, and sets what says so. The new key has only scopes of
// by. Unless by manages all, the new key is in by's workspace, has no plan, can manage nothing, and is
// counted as by. A key that can manage something, or whose maker does not manage all, is accepted
// from no address that by is not accepted from, and expires no later; both are like those of by if k
// sets none. The error is a *BeyondError if k goes beyond that.
func (by Key) Make(k Key, now time.Time) (Key, Token, error) {
	if k.Workspace == "" {
		k.Workspace = by.Workspace
	}
	if by.bounds(k) {
		if len(k.From) == 0 {
			k.From = by.From
		}
		if k.ExpiresAt.IsZero() {
			k.ExpiresAt = by.ExpiresAt
		}
	}
	k.MadeBy, k.CountedAs = by.ID, ""
	if !by.ManagesAll() {
		k.CountedAs = by.ID
	}
	k, token, err := New(k, now)
	if err == nil {
		err = by.beyond(k)
	}
	if err != nil {
		return Key{}, Token{}, err
	}
	return k, token, nil
}

// bounds reports whether the addresses and the expiry of k must be within those of by.
func (by Key) bounds(k Key) bool { return !by.ManagesAll() || k.manages() }

// beyond returns a *BeyondError if by could not make a key like k.
func (by Key) beyond(k Key) error {
	wrong := func(field, format string, args ...any) error {
		return &BeyondError{Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	if !by.ManagesAll() {
		switch {
		case k.Workspace != by.Workspace:
			return wrong("workspace", "must be %s: a key without the scope operator manages only its own", by.Workspace)
		case k.Plan != "":
			return wrong("plan", "can be set only with the scope operator")
		case k.manages():
			return wrong("scopes", "may include admin and operator only if the key that makes the key has both")
		}
	}
	for _, s := range k.Scopes {
		if !by.Has(s) {
			return wrong("scopes", "include %s, which the key that makes the key lacks", s)
		}
	}
	if !by.bounds(k) {
		return nil
	}
	if len(by.From) > 0 && (len(k.From) == 0 || slices.ContainsFunc(k.From, func(b netip.Prefix) bool { return !within(b, by.From) })) {
		return wrong("from", "must be within the addresses from which the key that makes the key is accepted")
	}
	if !by.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(by.ExpiresAt)) {
		return wrong("expires_at", "must not be after that of the key that makes the key")
	}
	return nil
}

func within(block netip.Prefix, all []netip.Prefix) bool {
	return slices.ContainsFunc(all, func(b netip.Prefix) bool { return b.Bits() <= block.Bits() && b.Contains(block.Addr()) })
}

// CheckRevoke returns a *BeyondError if by may not revoke k: unless by manages all, it revokes only
// what it could have made, which is without a row of limits too.
func (by Key) CheckRevoke(k Key, hasRow bool) error {
	switch {
	case by.ManagesAll():
		return nil
	case hasRow:
		return &BeyondError{Field: "key", Detail: "has limits of its own; revoking it needs the scope operator"}
	}
	return by.beyond(k)
}

var (
	// ErrNoPlan means that a key would get a plan that does not exist.
	ErrNoPlan = errors.New("there is no such plan")

	// ErrPlanInUse means that a plan is not removed, because keys have it.
	ErrPlanInUse = errors.New("keys have the plan; give them another first")

	// ErrCounted means that a key cannot have a plan, because it is counted as another.
	ErrCounted = errors.New("the key is counted as the one that made it; give that one the plan")
)

// CheckPlanIn returns ErrNoPlan if rows have no plan of that name. No plan, "", is always there.
func CheckPlanIn(rows []ratelimit.Row, plan string) error {
	if plan != "" && !slices.ContainsFunc(rows, func(r ratelimit.Row) bool { return r.Plan == plan }) {
		return fmt.Errorf("%w: %s", ErrNoPlan, plan)
	}
	return nil
}

// SetPlan is like Manager.SetPlan, and returns ErrCounted for a key that cannot have a plan.
func SetPlan(ctx context.Context, s Manager, id, plan string) (Key, error) {
	k, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return Key{}, err
	case k.CountedAs != "" && plan != "":
		return Key{}, ErrCounted
	}
	return s.SetPlan(ctx, id, plan)
}

// KeysByPlan counts the keys that have each plan and are not revoked.
func KeysByPlan(ctx context.Context, s Manager) (map[string]int, error) {
	all, err := All(ctx, s, "")
	counts := make(map[string]int)
	for _, k := range all {
		if k.RevokedAt.IsZero() && k.Plan != "" {
			counts[k.Plan]++
		}
	}
	return counts, err
}

// CheckUnused returns ErrPlanInUse if keys that are not revoked have the plan.
func CheckUnused(ctx context.Context, s Manager, plan string) error {
	counts, err := KeysByPlan(ctx, s)
	if err == nil && counts[plan] > 0 {
		err = fmt.Errorf("%w: %d", ErrPlanInUse, counts[plan])
	}
	return err
}

// All returns the keys of a workspace, or of all workspaces if that is "", oldest first.
func All(ctx context.Context, s Manager, workspace string) (all []Key, err error) {
	const page = 1000
	for after := ""; ; {
		var keys []Key
		if keys, after, err = s.List(ctx, workspace, after, page); err != nil {
			return nil, err
		}
		if all = append(all, keys...); after == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b Key) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// Revoke revokes a key and, with made, then all that it made, and that these made. If it fails, some of
// them may be revoked, and another call continues.
func Revoke(ctx context.Context, s Manager, id string, made bool, at time.Time) (k Key, others []Key, err error) {
	if k, err = s.Revoke(ctx, id, at); err != nil || !made {
		return k, nil, err
	}
	descendants := k.madeIDs()
	if k.ManagesAll() {
		all, err := All(ctx, s, "")
		if err != nil {
			return k, nil, err
		}
		descendants = descendantsOf(id, all)
	}
	for _, id := range descendants {
		other, err := s.Revoke(ctx, id, at)
		if err != nil {
			return k, others, fmt.Errorf("revoke %s: %w", id, err)
		}
		others = append(others, other)
	}
	return k, others, nil
}

// descendantsOf returns the ids of the keys that a key made, and that these made, each after its maker.
// Those that are revoked are left out, but not what they made.
func descendantsOf(id string, all []Key) (ids []string) {
	for makers := []string{id}; len(makers) > 0; makers = makers[1:] {
		for _, k := range all {
			if k.MadeBy != makers[0] {
				continue
			}
			makers = append(makers, k.ID)
			if k.RevokedAt.IsZero() {
				ids = append(ids, k.ID)
			}
		}
	}
	return ids
}

// MadeEntry returns the entry of k in Made of the key that it is counted as: its id and, if it
// expires, @ and the Unix time of that in milliseconds.
func (k Key) MadeEntry() string {
	if k.ExpiresAt.IsZero() {
		return k.ID
	}
	return k.ID + "@" + strconv.FormatInt(k.ExpiresAt.UnixMilli(), 10)
}

func (k Key) madeIDs() (ids []string) {
	for _, entry := range k.Made {
		id, _, _ := strings.Cut(entry, "@")
		ids = append(ids, id)
	}
	return ids
}

// ExpiredMade returns the entries of Made whose keys have expired.
func (k Key) ExpiredMade(now time.Time) (entries []string) {
	for _, entry := range k.Made {
		if _, at, ok := strings.Cut(entry, "@"); ok {
			if ms, err := strconv.ParseInt(at, 10, 64); err != nil || ms <= now.UnixMilli() {
				entries = append(entries, entry)
			}
		}
	}
	return entries
}

// AddMade counts k as maker, for a store. It returns ErrMaker or ErrTooManyMade as Manager.Create does.
func (maker *Key) AddMade(k Key) error {
	if !maker.RevokedAt.IsZero() {
		return ErrMaker
	}
	if k.CountedAs == "" {
		return nil
	}
	expired := maker.ExpiredMade(k.CreatedAt)
	maker.Made = slices.DeleteFunc(slices.Clone(maker.Made), func(e string) bool { return slices.Contains(expired, e) })
	if len(maker.Made) >= MaxMade {
		return ErrTooManyMade
	}
	maker.Made = append(maker.Made, k.MadeEntry())
	slices.Sort(maker.Made)
	return nil
}

// Shown is what anyone may see of a key, in JSON.
type Shown struct {
	ID        string         `json:"id"`
	Key       string         `json:"key,omitzero"` // with the secret; only in the response to its creation
	Name      string         `json:"name"`
	Workspace string         `json:"workspace"`
	Scopes    []Scope        `json:"scopes"`
	Plan      string         `json:"plan"`       // "" if the key has none
	From      []netip.Prefix `json:"from"`       // empty if the key is accepted from any address
	MadeBy    string         `json:"made_by"`    // "" if the key was made on the command line
	CountedAs string         `json:"counted_as"` // "" if the key is not counted as its maker
	Status    Status         `json:"status"`
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt *time.Time     `json:"expires_at"` // null if the key never expires
	RevokedAt *time.Time     `json:"revoked_at"` // null if the key is not revoked
}

// Show returns what anyone may see of k.
func (k Key) Show(now time.Time) Shown {
	shown := Shown{ID: k.ID, Name: k.Name, Workspace: k.Workspace, Scopes: k.Scopes, Plan: k.Plan, From: append([]netip.Prefix{}, k.From...),
		MadeBy: k.MadeBy, CountedAs: k.CountedAs, Status: k.Status(now), CreatedAt: k.CreatedAt}
	if !k.ExpiresAt.IsZero() {
		shown.ExpiresAt = &k.ExpiresAt
	}
	if !k.RevokedAt.IsZero() {
		shown.RevokedAt = &k.RevokedAt
	}
	return shown
}

// Revocation is a key that was revoked, with those that were revoked because they were made by it.
type Revocation struct {
	Shown
	Made []Shown `json:"made,omitzero"`
}

// ShowRevoked returns the result of Revoke.
func ShowRevoked(k Key, others []Key, now time.Time) Revocation {
	r := Revocation{Shown: k.Show(now)}
	for _, other := range others {
		r.Made = append(r.Made, other.Show(now))
	}
	return r
}
