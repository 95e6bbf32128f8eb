package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNotFound is the error for a key that is not there.
var ErrNotFound = errors.New("there is no such key")

// ErrExists is the error for a new key whose id is taken.
var ErrExists = errors.New("there is a key of this id already")

// Store finds keys. Implementations are safe for concurrent use.
type Store interface {
	// Get reads a key as it was last written, or fails with ErrNotFound. Any
	// other error means that the store cannot tell.
	Get(ctx context.Context, id string) (Key, error)
}

// Manager is a Store whose keys can be managed.
type Manager interface {
	Store

	// Create adds a key, or fails with ErrExists and changes nothing.
	Create(ctx context.Context, k Key) error

	// List reads all keys, of every workspace, in the order of their creation.
	List(ctx context.Context) ([]Key, error)

	// Revoke sets RevokedAt of a key, unless it is set, and returns the key as
	// it is then. It fails with ErrNotFound.
	Revoke(ctx context.Context, id string, at time.Time) (Key, error)
}

// MaxAge is how old what an Authenticator knows of a key may be: a key that is
// revoked lets nobody in after that time, anywhere.
const MaxAge = time.Minute

const (
	readTimeout = 2 * time.Second // longest wait for the store
	maxCached   = 1 << 12         // entries of each generation of a cache
)

// Reason says why a token was refused. It is for logs: a client that learned
// it would know whether it has guessed an id.
type Reason string

// The reasons. The zero value is none: the token is good.
const (
	ReasonMalformed   Reason = "malformed"
	ReasonUnknown     Reason = "unknown"
	ReasonWrongSecret Reason = "wrong_secret"
	ReasonRevoked     Reason = "revoked"
	ReasonExpired     Reason = "expired"
)

// Decision says whether a token is good. A refusal is a Decision, not an error.
type Decision struct {
	Key     Key    // the token's; zero when it was refused
	KeyID   string // what the token says it is; empty when it is malformed
	Refused Reason // "" when it is good
}

// Authenticator tells whose key a token is. It remembers for MaxAge what it has
// read of a key, also that there is none, so that it reads its store at most
// once a minute for each, as long as no more than some thousand are in use. It
// is safe for concurrent use.
type Authenticator struct {
	store Store
	now   func() time.Time

	mu     sync.Mutex
	known  cache            // keys that are there
	absent cache            // ids that are not: apart, so that guessing cannot crowd out keys
	reads  map[string]*read // under way, by id
}

// NewAuthenticator makes an Authenticator over store. now is the clock;
// time.Now if it is nil.
func NewAuthenticator(store Store, now func() time.Time) (*Authenticator, error) {
	if store == nil {
		return nil, errors.New("access: a store of keys is required")
	}
	if now == nil {
		now = time.Now
	}
	return &Authenticator{store: store, now: now, reads: make(map[string]*read)}, nil
}

// Authenticate decides about the text of a token. It does the same work for an
// id that is unknown as for one that is not, so that its time tells neither.
// An error means that the store could not tell, within 2 seconds.
func (a *Authenticator) Authenticate(ctx context.Context, text string) (Decision, error) {
	token, ok := ParseToken(text)
	if !ok {
		return Decision{Refused: ReasonMalformed}, nil
	}
	hash := token.hash()
	e, err := a.lookup(ctx, token.ID)
	if err != nil {
		return Decision{KeyID: token.ID}, fmt.Errorf("read access key %s: %w", token.ID, err)
	}
	same := subtle.ConstantTimeCompare(hash[:], e.key.SecretHash[:]) == 1
	d := Decision{KeyID: token.ID}
	switch status := e.key.Status(a.now()); {
	case !e.found:
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
	key    Key // zero if it was not found
	found  bool
	readAt time.Time
}

// fresh reports whether e may still be believed.
func (e entry) fresh(now time.Time) bool {
	age := now.Sub(e.readAt)
	return age >= 0 && age < MaxAge
}

// read is a read of the store. Its results are there once done is closed.
type read struct {
	done  chan struct{}
	entry entry
	err   error
}

// lookup is what is known of the key with that id, read anew if need be. Calls
// for one id at the same time share a read.
func (a *Authenticator) lookup(ctx context.Context, id string) (entry, error) {
	// The wall clock: a function instance may stand still between two events,
	// and its monotonic clock with it.
	now := a.now().Round(0)
	a.mu.Lock()
	for _, c := range []*cache{&a.known, &a.absent} {
		if e, ok := c.get(id); ok && e.fresh(now) {
			a.mu.Unlock()
			return e, nil
		}
	}
	if r, ok := a.reads[id]; ok {
		a.mu.Unlock()
		select {
		case <-r.done:
			return r.entry, r.err
		case <-ctx.Done():
			return entry{}, ctx.Err()
		}
	}
	r := &read{done: make(chan struct{}), err: errors.New("the read of the key panicked")}
	a.reads[id] = r
	a.mu.Unlock()

	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.reads, id)
		switch {
		case r.err != nil: // not remembered: the next request tries again
		case r.entry.found:
			a.known.put(id, r.entry)
		default:
			a.absent.put(id, r.entry)
		}
		close(r.done)
	}()
	// Others may wait for this read although the client who began it has gone.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	r.entry, r.err = a.read(bounded, id, now)
	return r.entry, r.err
}

// read reads a key. What it finds counts from before the read.
func (a *Authenticator) read(ctx context.Context, id string, now time.Time) (entry, error) {
	key, err := a.store.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return entry{readAt: now}, nil
	}
	if err == nil {
		err = key.Validate()
	}
	if err != nil {
		return entry{}, err
	}
	return entry{key: key, found: true, readAt: now}, nil
}

// cache holds entries by id, up to twice maxCached of them: once the young ones
// are that many they become the old ones, and the old ones are forgotten. An
// entry that is asked for is young again. The zero value is empty.
type cache struct {
	young, old map[string]entry
}

func (c *cache) get(id string) (entry, bool) {
	e, ok := c.young[id]
	if ok {
		return e, true
	}
	if e, ok = c.old[id]; ok {
		c.put(id, e)
	}
	return e, ok
}

func (c *cache) put(id string, e entry) {
	if c.young == nil || len(c.young) >= maxCached {
		c.young, c.old = make(map[string]entry), c.young
	}
	c.young[id] = e
}
