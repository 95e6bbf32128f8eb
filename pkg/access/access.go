// Package access implements API keys. A key grants access to the routes of its scopes. An
// [Authenticator] decides whether the token in a request belongs to a valid key.
//
// The owner of a key sees its token, slc_<id>_<secret>, only once. Stores keep a [Key] with a
// hash of the secret, so nobody can sign in with what is stored.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/pkg/ratelimit"
)

// Scope is a permission. A route requires one, and a key has one or more.
type Scope string

// The empty string is not a scope, so every route must declare one.
const (
	Public    Scope = "public"    // for routes that need no key; no key has it
	Import    Scope = "import"    // permits routes that write records
	Export    Scope = "export"    // permits reading records, creating export jobs and reading export files
	Erase     Scope = "erase"     // permits reading erasure jobs and, together with Import, starting them
	Dashboard Scope = "dashboard" // permits signing in to the dashboard, and reading the caller's own usage
	Operator  Scope = "operator"  // permits, together with Dashboard, reading the usage of any address or key; and see Admin
	Admin     Scope = "admin"     // permits managing keys and indexes of the key's workspace and, together with Operator, everything; see Key.Make
)

// Scopes returns the scopes that a key can have, sorted.
func Scopes() []Scope { return []Scope{Admin, Dashboard, Erase, Export, Import, Operator} }

// DefaultWorkspace is the workspace of new keys, unless the operator chooses another one. If API
// keys are off, all records are in it.
const DefaultWorkspace = "default"

const (
	maxWorkspaceLength  = 64
	workspaceCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// CheckWorkspace returns an error if name cannot be the name of a workspace. It must reject '#', because
// a '#' follows the name in database keys.
func CheckWorkspace(name string) error {
	if name == "" || len(name) > maxWorkspaceLength || !consistsOf(name, workspaceCharacters) {
		return errors.New("must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	return nil
}

// Key is an API key as stores keep it. Whoever has its secret may use the routes of its scopes
// on the records of its workspace. Times are UTC, in whole milliseconds. The JSON is for local
// stores, not for clients.
type Key struct {
	ID         string         `json:"id"`                  // 12 characters; not secret
	Name       string         `json:"name,omitzero"`       // for operators; 0 to 128 characters
	Workspace  string         `json:"workspace"`           // 1 to 64 of the characters A-Z a-z 0-9 . _ -
	Scopes     []Scope        `json:"scopes"`              // at least one, sorted
	Plan       string         `json:"plan,omitzero"`       // limits that the key shares with others, see ratelimit.Row; empty for none
	MadeBy     string         `json:"made_by,omitzero"`    // id of the key that made this one; empty if it was made on the command line
	CountedAs  string         `json:"counted_as,omitzero"` // id of the key whose limits this one uses up, which is MadeBy; empty if that is its own
	Made       []string       `json:"made,omitzero"`       // of a key that others are counted as: an entry for each of them that is valid, see madeEntry
	From       []netip.Prefix `json:"from,omitzero"`       // CIDR blocks the key may be used from, at most 50, without host bits; empty means anywhere
	SecretHash Hash           `json:"secret_hash"`
	CreatedAt  time.Time      `json:"created_at"`
	ExpiresAt  time.Time      `json:"expires_at,omitzero"` // when the key expires; zero if it does not
	RevokedAt  time.Time      `json:"revoked_at,omitzero"` // when the key was revoked; zero if it was not
}

var errPlan = errors.New("the name of a plan has 1 to 32 of the characters a-z 0-9 . _ -")

// CheckPlan returns an error if plan is neither the name of a plan nor "".
func CheckPlan(plan string) error {
	if plan != "" && !ratelimit.IsPlan(plan) {
		return errPlan
	}
	return nil
}

// Hash is the SHA-256 of a secret; its text is hexadecimal. A secret has 160 random bits, so
// it needs no slow hash.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("not a SHA-256 hash in hexadecimal")
	}
	copy(h[:], b)
	return nil
}

// New returns a new key and its token. The key has the name, workspace, scopes, CIDR blocks
// and expiry of k, its plan, and what it says of its maker. New fails if any of them is invalid.
func New(k Key, now time.Time) (Key, Token, error) {
	token := Token{ID: randomText(idLength), secret: randomText(secretLength)}
	k.ID, k.SecretHash = token.ID, token.hash()
	k.CreatedAt, k.RevokedAt, k.Made = now.UTC().Truncate(time.Millisecond), time.Time{}, nil
	if !k.ExpiresAt.IsZero() {
		k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !k.ExpiresAt.After(k.CreatedAt) {
			return Key{}, Token{}, errors.New("the expiry of the key must be in the future")
		}
	}
	k.Scopes = slices.Compact(slices.Sorted(slices.Values(k.Scopes)))
	k.From = slices.Compact(slices.SortedFunc(slices.Values(k.From), netip.Prefix.Compare))
	return k, token, k.validate()
}

// maxNameLength is in characters.
const maxNameLength = 128

// MaxFrom is how many CIDR blocks a key can be tied to.
const MaxFrom = 50

// CheckName returns an error if name cannot be the name of a key.
func CheckName(name string) error {
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxNameLength || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("must have at most %d characters and no control characters", maxNameLength)
	}
	return nil
}

// CheckScope returns an error if no key can have the scope.
func CheckScope(scope string) error {
	if !slices.Contains(Scopes(), Scope(scope)) {
		return errors.New("is not one of import, export, dashboard, erase, admin and operator")
	}
	return nil
}

// CheckID returns an error if id cannot be the id of a key.
func CheckID(id string) error {
	if !IsID(id) {
		return fmt.Errorf("must be the id of an API key: %d characters", idLength)
	}
	return nil
}

func (k Key) validate() error {
	if !IsID(k.ID) {
		return fmt.Errorf("%q is not the id of a key", k.ID)
	}
	if err := CheckWorkspace(k.Workspace); err != nil {
		return fmt.Errorf("the workspace %q %w", k.Workspace, err)
	}
	if err := CheckName(k.Name); err != nil {
		return fmt.Errorf("the name %w", err)
	}
	if len(k.Scopes) == 0 {
		return errors.New("a key needs a scope: import, export, dashboard, erase, admin or operator")
	}
	for _, s := range k.Scopes {
		if err := CheckScope(string(s)); err != nil {
			return fmt.Errorf("the scope %q %w", s, err)
		}
	}
	if err := CheckPlan(k.Plan); err != nil {
		return err
	}
	if len(k.From) > MaxFrom {
		return fmt.Errorf("a key can be tied to at most %d CIDR blocks", MaxFrom)
	}
	for _, block := range k.From {
		if !block.IsValid() || block != block.Masked() || block.Addr().Is4In6() {
			return fmt.Errorf("%v is not a CIDR block", block)
		}
	}
	return nil
}

func (k Key) Has(scope Scope) bool { return slices.Contains(k.Scopes, scope) }

// acceptedFrom treats an IPv4-mapped IPv6 address as IPv4.
func (k Key) acceptedFrom(client netip.Addr) bool {
	client = client.Unmap().WithZone("")
	return len(k.From) == 0 || slices.ContainsFunc(k.From, func(block netip.Prefix) bool { return block.Contains(client) })
}

func (k Key) Status(now time.Time) Status {
	switch {
	case !k.RevokedAt.IsZero():
		return Revoked
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt):
		return Expired
	}
	return Active
}

// Status says whether an existing key is valid.
type Status string

const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Token is the id and the secret of a key. The key's owner sends it with each request. Package
// fmt prints it without the secret.
type Token struct {
	ID     string
	secret string
}

const (
	tokenPrefix  = "slc"
	idLength     = 12
	secretLength = 32

	// alphabet has 32 characters, 5 bits each, without 0, o, 1 and l, which are easily confused
	alphabet = "23456789abcdefghijkmnpqrstuvwxyz"
)

// randomText is unbiased, because 256 is a multiple of the alphabet's length.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// IsID reports whether s looks like the id of a key.
func IsID(s string) bool { return isRandomText(s, idLength) }

func isRandomText(s string, n int) bool { return len(s) == n && consistsOf(s, alphabet) }

// consistsOf uses no regular expression, because compiling one would take 5% of a cold start.
func consistsOf(s, characters string) bool { return strings.Trim(s, characters) == "" }

// tokenLength is in bytes. A token is ASCII.
const tokenLength = len(tokenPrefix) + 1 + idLength + 1 + secretLength

// ParseToken parses slc_<id>_<secret>; ok is false if text is not a token. Anyone can send a text
// of any length, so the length is checked before anything else.
func ParseToken(text string) (t Token, ok bool) {
	if len(text) != tokenLength {
		return Token{}, false
	}
	prefix, rest, _ := strings.Cut(text, "_")
	id, secret, _ := strings.Cut(rest, "_")
	if prefix != tokenPrefix || !IsID(id) || !isRandomText(secret, secretLength) {
		return Token{}, false
	}
	// Without Clone, the id would keep the whole text in memory.
	return Token{ID: strings.Clone(id), secret: secret}, true
}

// Reveal returns the token with its secret: slc_<id>_<secret>.
func (t Token) Reveal() string { return strings.Join([]string{tokenPrefix, t.ID, t.secret}, "_") }

// String leaves out the secret.
func (t Token) String() string { return tokenPrefix + "_" + t.ID + "_…" }

// GoString leaves out the secret.
func (t Token) GoString() string { return t.String() }

func (t Token) hash() Hash { return sha256.Sum256([]byte(t.secret)) }
