package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// ErrNotFound means that there is no such key.
var ErrNotFound = errors.New("there is no such key")

// ErrExists means that a new key has the id of an existing one.
var ErrExists = errors.New("a key with this id already exists")

// Store finds keys. It is safe for concurrent use.
type Store interface {
	// Get returns a key as it was last written, or ErrNotFound. After any other error, it is
	// unknown whether the key exists.
	Get(ctx context.Context, id string) (Key, error)
}

// Manager is a Store that can change its keys.
type Manager interface {
	Store

	// Create adds k. If a key with the same id exists, it returns ErrExists and changes nothing.
	Create(ctx context.Context, k Key) error

	// List returns the keys of all workspaces, oldest first.
	List(ctx context.Context) ([]Key, error)

	// Revoke sets RevokedAt unless it is already set. It returns the key, or ErrNotFound.
	Revoke(ctx context.Context, id string, at time.Time) (Key, error)
}

// MaxAge is how long an Authenticator may use a cached key, and so how long a revoked key may
// still be accepted.
const MaxAge = time.Minute

const (
	readTimeout = 2 * time.Second // per read of the store
	maxCached   = 1 << 13         // maximum number of entries in each map of an Authenticator
)

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
	KeyID   string // as in the token; empty if the token is malformed
	Refused Reason // empty if the token was accepted
}

// Authenticator decides whether a token is valid. It caches each key, and each id that has no
// key, for MaxAge. So it reads each key at most once a minute, unless more than about 8,000
// keys are in use. It is safe for concurrent use.
type Authenticator struct {
	store Store
	now   func() time.Time   // without a monotonic clock reading
	reads singleflight.Group // in progress, by id

	mu     sync.Mutex
	known  map[string]entry // keys that exist, by id
	absent map[string]entry // ids that do not exist; a separate map, so that guessed ids cannot evict keys
}

// NewAuthenticator fails if store is nil. If now is nil, it uses time.Now.
func NewAuthenticator(store Store, now func() time.Time) (*Authenticator, error) {
	if store == nil {
		return nil, errors.New("access: a store of keys is required")
	}
	if now == nil {
		now = time.Now
	}
	// Round removes the monotonic clock reading, because that clock stops while Lambda freezes
	// the process between two requests.
	return &Authenticator{store: store, now: func() time.Time { return now().Round(0) }}, nil
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
	e, err := a.lookup(ctx, token.ID)
	if err != nil {
		return Decision{KeyID: token.ID}, fmt.Errorf("read API key %s: %w", token.ID, err)
	}
	same := subtle.ConstantTimeCompare(hash[:], e.key.SecretHash[:]) == 1
	d := Decision{KeyID: token.ID}
	switch status := e.key.Status(a.now()); {
	case e.key.ID == "":
		d.Refused = ReasonUnknown
	case !same:
		d.Refused = ReasonWrongSecret
	case status == Revoked:
		d.Refused = ReasonRevoked
	case status == Expired:
		d.Refused = ReasonExpired
	case !e.key.acceptedFrom(client):
		d.Refused = ReasonAddress
	default:
		d.Key = e.key
	}
	return d, nil
}

// entry is the result of reading a key.
type entry struct {
	key    Key       // zero if there is none
	readAt time.Time // when the read began
}

// lookup returns the cached entry of id, or reads the key. Concurrent calls for an id share
// one read, which continues even if the caller that began it stops waiting. Each caller stops
// waiting when its own context is done.
func (a *Authenticator) lookup(ctx context.Context, id string) (entry, error) {
	if e, ok := a.cached(id); ok {
		return e, nil
	}
	reading := a.reads.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return a.read(ctx, id)
	})
	select {
	case r := <-reading:
		e, _ := r.Val.(entry)
		return e, r.Err
	case <-ctx.Done():
		return entry{}, ctx.Err()
	}
}

// cached returns false if no usable entry exists. An entry is unusable if it is too old, or if it
// seems to be from the future because the clock was set back.
func (a *Authenticator) cached(id string) (entry, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.known[id]
	if !ok {
		e, ok = a.absent[id]
	}
	age := a.now().Sub(e.readAt)
	return e, ok && age >= 0 && age < MaxAge
}

// put empties a full map first. That is simpler than evicting entries, which expire after a
// minute anyway.
func (a *Authenticator) put(entries *map[string]entry, id string, e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *entries == nil || len(*entries) >= maxCached {
		*entries = make(map[string]entry)
	}
	(*entries)[id] = e
}

// read gets a key from the store and caches the result. It turns a panic in the store into an
// error, because a panic within singleflight would end the process.
func (a *Authenticator) read(ctx context.Context, id string) (e entry, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	readAt := a.now()
	key, err := a.store.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		e = entry{readAt: readAt}
		a.put(&a.absent, id, e)
		return e, nil
	}
	if err == nil {
		err = key.validate()
	}
	if err != nil {
		return entry{}, err
	}
	e = entry{key: key, readAt: readAt}
	a.put(&a.known, id, e)
	return e, nil
}
