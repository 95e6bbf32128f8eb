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

// ErrNotFound is the error for a key that does not exist.
var ErrNotFound = errors.New("there is no such key")

// ErrExists is the error for a new key whose id already exists.
var ErrExists = errors.New("a key with this id already exists")

// Store finds keys. Implementations are safe for concurrent use.
type Store interface {
	// Get returns a key as it was last written. It returns ErrNotFound if the key does
	// not exist. After any other error it is unknown whether the key exists.
	Get(ctx context.Context, id string) (Key, error)
}

// Manager is a Store that can change its keys.
type Manager interface {
	Store

	// Create adds k. If a key with the id of k already exists, Create returns ErrExists
	// and changes nothing.
	Create(ctx context.Context, k Key) error

	// List returns the keys of all workspaces in the order of their creation.
	List(ctx context.Context) ([]Key, error)

	// Revoke sets RevokedAt of a key if the key is not revoked yet, and returns the
	// resulting key. It returns ErrNotFound if the key does not exist.
	Revoke(ctx context.Context, id string, at time.Time) (Key, error)
}

// MaxAge is the maximum age of the keys in the cache of an Authenticator. After the
// revocation of a key, an Authenticator can still accept the key for at most this time.
const MaxAge = time.Minute

const (
	readTimeout = 2 * time.Second // maximum duration of a read of the store
	maxCached   = 1 << 13         // maximum number of entries in each map of an Authenticator
)

// Reason says why a token was refused. It is for logs only, because a client must
// not learn whether an id exists.
type Reason string

// The reasons. The zero value means that the token was accepted.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonUnknown     Reason = "unknown"
	ReasonWrongSecret Reason = "wrong_secret"
	ReasonRevoked     Reason = "revoked"
	ReasonExpired     Reason = "expired"
	ReasonAddress     Reason = "wrong_address" // not one from which the key is accepted
)

// Decision says whether a token is accepted. A refusal is a Decision, not an
// error.
type Decision struct {
	Key     Key    // key of the token; zero if the token was refused
	KeyID   string // id in the token; empty if the token is malformed
	Refused Reason // empty if the token was accepted
}

// Authenticator decides whether a token is valid. It caches each key for MaxAge. If
// an id does not exist, it remembers this for MaxAge too. It therefore reads each key at most
// once a minute, as long as there are at most about 8,000 keys. It is safe for concurrent use.
type Authenticator struct {
	store Store
	now   func() time.Time   // clock; its times have no monotonic reading
	reads singleflight.Group // reads in progress, by id

	mu     sync.Mutex
	known  map[string]entry // keys that exist, by id
	absent map[string]entry // ids that do not exist; a separate map, so that guessed ids cannot evict keys
}

// NewAuthenticator returns an Authenticator that reads keys from store. The function
// now is the clock; nil means time.Now. NewAuthenticator returns an error if store is
// nil.
func NewAuthenticator(store Store, now func() time.Time) (*Authenticator, error) {
	if store == nil {
		return nil, errors.New("access: a store of keys is required")
	}
	if now == nil {
		now = time.Now
	}
	// Round removes the monotonic reading, because the monotonic clock stops while
	// Lambda freezes the process between two requests.
	return &Authenticator{store: store, now: func() time.Time { return now().Round(0) }}, nil
}

// Authenticate decides whether text is a valid token at a client address. It does the same work
// for unknown ids as for known ones, so its duration does not show whether an id exists. It
// returns an error if the store fails, if a read takes longer than 2 seconds, or if ctx is done
// before the decision.
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
	key    Key       // zero if the key was not found
	readAt time.Time // when the read began
}

// lookup returns the cached entry of id, or reads the key. Concurrent calls for the
// same id share one read. The read continues even if the caller that began it stops
// waiting. Each caller waits only until its own context is done.
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

// cached returns the cached entry of id. It reports false if no entry exists, if the entry
// is too old, or if its time is in the future because the clock was set back.
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

// put adds e to the map *entries. If the map is full, put first replaces it with an empty
// map. This is simpler than evicting single entries, which expire after a minute anyway.
func (a *Authenticator) put(entries *map[string]entry, id string, e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *entries == nil || len(*entries) >= maxCached {
		*entries = make(map[string]entry)
	}
	(*entries)[id] = e
}

// read reads a key from the store and caches the result. It converts a panic of the store
// into an error, because otherwise singleflight would end the process.
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
