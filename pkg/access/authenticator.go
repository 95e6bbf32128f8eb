package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"sluice/pkg/snapshot"
)

// ErrNotFound means that there is no such key.
var ErrNotFound = errors.New("there is no such key")

// ErrExists means that a new key has the id of an existing one.
var ErrExists = errors.New("a key with this id already exists")

// ErrGuessing means that a token was not checked, because its id is unknown and too many others have
// just proved invalid.
var ErrGuessing = errors.New("too many API keys with unknown ids were not valid in this second")

// Store finds keys. It is safe for concurrent use.
type Store interface {
	// Get returns a key as it was last written, or ErrNotFound. After any other error, it is
	// unknown whether the key exists.
	Get(ctx context.Context, id string) (Key, error)
}

// Manager is a Store that can change its keys.
type Manager interface {
	Store

	// Create adds k. If a key with the same id exists, it returns ErrExists and changes nothing. If k
	// has a maker, it returns ErrMaker unless that exists and is not revoked. If k is counted as its
	// maker, it counts k there, and returns ErrTooManyMade if MaxMade others are. However many calls
	// there are at the same time, these bounds are exact.
	Create(ctx context.Context, k Key) error

	// List returns at most limit keys of a workspace with ids greater than after, in the order of
	// their ids; or of all workspaces if workspace is "", in an order that only the store knows. next
	// is the id to continue with; "" if no keys follow. A key that was created a moment ago may be
	// missing from the list of a workspace.
	List(ctx context.Context, workspace, after string, limit int) (keys []Key, next string, err error)

	// Revoke sets RevokedAt unless it is already set. Then the key no longer counts for ErrTooManyMade.
	// It returns the key, or ErrNotFound.
	Revoke(ctx context.Context, id string, at time.Time) (Key, error)

	// SetPlan sets the plan of a key, which must be valid (see CheckPlan); "" removes it. It
	// returns the key, or ErrNotFound.
	SetPlan(ctx context.Context, id, plan string) (Key, error)
}

// MaxAge is how long an Authenticator may use a cached key, and so how long a revoked key may
// still be accepted.
const MaxAge = snapshot.MaxAge

const readTimeout = 2 * time.Second // per read of the store

// Reason is why a token was refused. It is for logs only, because a client must not learn
// whether an id exists.
type Reason string

// The zero value means that the token was accepted.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonUnknown     Reason = "unknown"
	ReasonWrongSecret Reason = "wrong_secret"
	ReasonRevoked     Reason = "revoked"
	ReasonExpired     Reason = "expired"
	ReasonAddress     Reason = "wrong_address" // the key is not accepted from this address
)

// Decision says whether a token is accepted. A refusal is a Decision, not an error.
type Decision struct {
	Key     Key    // zero if the token was refused
	Counted Key    // the key whose limits apply: Key, or the one that it is counted as, of which only ID and Plan are sure to be set
	KeyID   string // as in the token; empty if the token is malformed
	Refused Reason // empty if the token was accepted
}

// Authenticator decides whether a token is valid. It caches each key, and each id that has no
// key, for MaxAge, and reads a key that is in use every 45 seconds, in the background; see
// [snapshot.Keyed] for how many it keeps. It is safe for concurrent use.
type Authenticator struct {
	keys    *snapshot.Keyed[Key] // by id; the zero Key for an id that no key has
	guesses *guesses
	now     func() time.Time
}

// NewAuthenticator fails if store is nil. If now is nil, it uses time.Now.
func NewAuthenticator(store Store, now func() time.Time) (*Authenticator, error) {
	if store == nil {
		return nil, errors.New("access: a store of keys is required")
	}
	if now == nil {
		now = time.Now
	}
	keys, err := snapshot.NewKeyed(func(ctx context.Context, id string) (k Key, exists bool, err error) {
		k, err = store.Get(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return Key{}, false, nil
		}
		if err == nil {
			err = k.validate()
		}
		return k, true, err
	}, snapshot.Config{MaxAge: MaxAge, Timeout: readTimeout, Now: now})
	return &Authenticator{keys: keys, guesses: newGuesses(now), now: now}, err
}

// Counted returns the key whose limits a key uses up, as in Decision.Counted. A key that does not exist
// has no plan.
func (a *Authenticator) Counted(ctx context.Context, id string) (Key, error) {
	k, err := a.read(ctx, id)
	if err == nil && k.CountedAs != "" {
		k, err = a.read(ctx, k.CountedAs)
	}
	return k, err
}

// read returns a Key with only an id if there is no such key.
func (a *Authenticator) read(ctx context.Context, id string) (Key, error) {
	k, err := a.keys.Get(ctx, id)
	if err != nil {
		return Key{}, fmt.Errorf("read API key %s: %w", id, err)
	}
	k.ID = id
	return k, nil
}

// Precheck is like Authenticate, except that it reads only so many unknown ids which prove invalid: 50
// a second, and 10 for one client. Beyond that it returns ErrGuessing. An id of which a key has been
// found before is not unknown. So nobody can make an instance read more before being charged, and
// valid keys do not count.
func (a *Authenticator) Precheck(ctx context.Context, text string, client netip.Addr, counted netip.Prefix) (d Decision, err error) {
	token, ok := ParseToken(text)
	if !ok || a.keys.Known(token.ID) {
		return a.Authenticate(ctx, text, client)
	}
	if !a.guesses.begin(ctx, counted) {
		return Decision{KeyID: token.ID}, ErrGuessing
	}
	defer func() { a.guesses.end(counted, err == nil && d.Refused == "") }()
	return a.Authenticate(ctx, text, client)
}

// Authenticate decides whether text is a valid token when sent from the client's address. It
// does the same work for unknown ids as for known ids, so its duration does not reveal whether
// an id exists. It fails if the store fails, if a read takes longer than 2 seconds, or if ctx
// is done first.
func (a *Authenticator) Authenticate(ctx context.Context, text string, client netip.Addr) (Decision, error) {
	token, ok := ParseToken(text)
	if !ok {
		return Decision{Refused: ReasonMalformed}, nil
	}
	hash := token.hash()
	k, err := a.keys.Get(ctx, token.ID)
	if err != nil {
		return Decision{KeyID: token.ID}, fmt.Errorf("read API key %s: %w", token.ID, err)
	}
	same := subtle.ConstantTimeCompare(hash[:], k.SecretHash[:]) == 1
	d := Decision{KeyID: token.ID}
	switch status := k.Status(a.now()); {
	case k.ID == "":
		d.Refused = ReasonUnknown
	case !same:
		d.Refused = ReasonWrongSecret
	case status == Revoked:
		d.Refused = ReasonRevoked
	case status == Expired:
		d.Refused = ReasonExpired
	case !k.acceptedFrom(client):
		d.Refused = ReasonAddress
	default:
		d.Key, d.Counted = k, k
		if k.CountedAs != "" {
			d.Counted, err = a.read(ctx, k.CountedAs)
		}
	}
	if err != nil {
		return Decision{KeyID: token.ID}, err
	}
	return d, nil
}
