package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// ErrNotFound is the error for a key that does not exist.
var ErrNotFound = errors.New("there is no such key")

// ErrExists is the error for a new key whose id is taken.
var ErrExists = errors.New("there is a key of this id already")

// Store finds keys. Implementations are safe for concurrent use.
type Store interface {
	// Get returns a key as it was last written, or ErrNotFound. Any other error
	// means that the store cannot tell.
	Get(ctx context.Context, id string) (Key, error)
}

// Manager is a Store whose keys can be managed.
type Manager interface {
	Store

	// Create adds a key. If the id is taken it returns ErrExists and changes
	// nothing.
	Create(ctx context.Context, k Key) error

	// List returns the keys of all workspaces in the order of their creation.
	List(ctx context.Context) ([]Key, error)

	// Revoke sets RevokedAt of a key, unless it is set, and returns the key as
	// it is then. It returns ErrNotFound if the key does not exist.
	Revoke(ctx context.Context, id string, at time.Time) (Key, error)
}

// MaxAge bounds the age of what an Authenticator knows of a key. After a key is
// revoked, no Authenticator accepts it for longer.
const MaxAge = time.Minute

const (
	readTimeout = 2 * time.Second // longest wait for the store
	maxCached   = 1 << 13         // entries of a map
)

// Reason says why a token was refused. It is for logs: a client must not learn
// whether an id exists.
type Reason string

// The reasons. The zero value means that the token was accepted.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonUnknown     Reason = "unknown"
	ReasonWrongSecret Reason = "wrong_secret"
	ReasonRevoked     Reason = "revoked"
	ReasonExpired     Reason = "expired"
)

// Decision says whether a token is accepted. A refusal is a Decision, not an
// error.
type Decision struct {
	Key     Key    // of the token; zero if the token was refused
	KeyID   string // id that the token names; empty if it is malformed
	Refused Reason // "" if the token was accepted
}

// Authenticator decides about tokens. It caches what it reads of a key for
// MaxAge, including that there is no such key, so that it reads its store at
// most once a minute for each of some thousand keys. It is safe for concurrent
// use.
type Authenticator struct {
	store Store
	now   func() time.Time   // without a monotonic reading
	reads singleflight.Group // by id

	mu     sync.Mutex
	known  map[string]entry // keys that exist, by id
	absent map[string]entry // ids that do not: a map of their own, so that guesses cannot evict keys
}

// NewAuthenticator returns an Authenticator over store. now is the clock;
// time.Now if it is nil.
func NewAuthenticator(store Store, now func() time.Time) (*Authenticator, error) {
	if store == nil {
		return nil, errors.New("access: a store of keys is required")
	}
	if now == nil {
		now = time.Now
	}
	// A function instance may be frozen between two requests, and its monotonic clock
	// with it.
	return &Authenticator{store: store, now: func() time.Time { return now().Round(0) }}, nil
}

// Authenticate decides about the text of a token. It does the same work for
// unknown ids as for known ones, so that its duration does not tell them apart.
// An error means that the store could not tell within 2 seconds, or that ctx is
// done.
func (a *Authenticator) Authenticate(ctx context.Context, text string) (Decision, error) {
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
	default:
		d.Key = e.key
	}
	return d, nil
}

// entry is what was read of a key.
type entry struct {
	key    Key       // without an ID if it was not found
	readAt time.Time // when the read began
}

// lookup returns what is known of the key with that id, and reads it if need be.
// Concurrent calls for one id share a read, which outlives the call that began
// it: each caller waits only until its own ctx is done.
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

// cached returns the entry of the key with that id unless it is too old.
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

// put caches e in entries. When these are too many, it starts again: entries are of
// no use after a minute anyway.
func (a *Authenticator) put(entries *map[string]entry, id string, e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *entries == nil || len(*entries) >= maxCached {
		*entries = make(map[string]entry)
	}
	(*entries)[id] = e
}

// read reads a key from the store and caches what it finds. A panic becomes an
// error, because singleflight would end the process.
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
		err = key.Validate()
	}
	if err != nil {
		return entry{}, err
	}
	e = entry{key: key, readAt: readAt}
	a.put(&a.known, id, e)
	return e, nil
}
