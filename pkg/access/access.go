// Package access decides who may use which route of the API: API keys, what
// each of them permits, and whether a token that a request carries is valid.
//
// A key is shown to its owner once, as the token slc_<id>_<secret>. Stores hold
// a [Key], which has only a hash of the secret: nobody can sign in with what
// they read there.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Scope is what a key must have been given to use a route.
type Scope string

// The scopes. The zero value is not a scope: every route must declare its own.
const (
	Public    Scope = "public"    // routes that need no key; no key has it
	Import    Scope = "import"    // puts records in
	Export    Scope = "export"    // gets records out
	Dashboard Scope = "dashboard" // export jobs and usage
)

// Scopes returns the scopes that a key can have, sorted.
func Scopes() []Scope { return []Scope{Dashboard, Export, Import} }

// DefaultWorkspace owns every record while API keys are off, and the records of
// keys that name no other workspace.
const DefaultWorkspace = "default"

const (
	maxWorkspaceLength  = 64
	workspaceCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// CheckWorkspace returns an error that says what the name of a workspace must
// be, or nil if name is valid. Stores append '#' to the name in the keys of
// their items, so it must not contain one.
func CheckWorkspace(name string) error {
	if name == "" || len(name) > maxWorkspaceLength || !consistsOf(name, workspaceCharacters) {
		return errors.New("must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	}
	return nil
}

// Key is an API key as stores hold it. Whoever has its secret may use the routes
// of its scopes, on the records of its workspace. Times are in UTC, in whole
// milliseconds. Its JSON is how files hold it, not for clients.
type Key struct {
	ID         string    `json:"id"`            // 12 characters; not secret
	Name       string    `json:"name,omitzero"` // for people; at most 128 characters, may be empty
	Workspace  string    `json:"workspace"`     // see CheckWorkspace
	Scopes     []Scope   `json:"scopes"`        // at least one, sorted
	SecretHash Hash      `json:"secret_hash"`
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"` // from then on the key is not valid; zero: it does not expire
	RevokedAt  time.Time `json:"revoked_at,omitzero"` // zero: not revoked
}

// Hash is the SHA-256 of a key's secret. A slow hash would protect secrets that
// people choose; these have 160 random bits. Its text is hexadecimal.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("not a SHA-256 in hexadecimal")
	}
	copy(h[:], b)
	return nil
}

// New returns a new key with the name, the workspace, the scopes and the expiry
// of k, and its token. It returns an error if one of these is not valid.
func New(k Key, now time.Time) (Key, Token, error) {
	token := Token{ID: randomText(idLength), secret: randomText(secretLength)}
	k.ID, k.SecretHash = token.ID, token.hash()
	k.CreatedAt, k.RevokedAt = now.UTC().Truncate(time.Millisecond), time.Time{}
	if !k.ExpiresAt.IsZero() {
		k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Millisecond)
		if !k.ExpiresAt.After(k.CreatedAt) {
			return Key{}, Token{}, errors.New("the key would have expired already")
		}
	}
	k.Scopes = slices.Compact(slices.Sorted(slices.Values(k.Scopes)))
	return k, token, k.Validate()
}

// maxNameLength is the most characters of a key's name.
const maxNameLength = 128

// Validate returns an error that says which field of k is not valid, or nil.
func (k Key) Validate() error {
	if !isRandomText(k.ID, idLength) {
		return fmt.Errorf("%q is not the id of a key", k.ID)
	}
	if err := CheckWorkspace(k.Workspace); err != nil {
		return fmt.Errorf("the workspace %q %w", k.Workspace, err)
	}
	if !utf8.ValidString(k.Name) || utf8.RuneCountInString(k.Name) > maxNameLength || strings.ContainsFunc(k.Name, unicode.IsControl) {
		return fmt.Errorf("the name must have at most %d characters, none of them a control character", maxNameLength)
	}
	if len(k.Scopes) == 0 {
		return errors.New("a key needs a scope: import, export or dashboard")
	}
	for _, s := range k.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fmt.Errorf("there is no scope %q; scopes are import, export and dashboard", s)
		}
	}
	return nil
}

// Has reports whether k has been given scope.
func (k Key) Has(scope Scope) bool { return slices.Contains(k.Scopes, scope) }

// Status returns the status of k at the time now.
func (k Key) Status(now time.Time) Status {
	switch {
	case !k.RevokedAt.IsZero():
		return Revoked
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt):
		return Expired
	}
	return Active
}

// Status says whether a key that exists is valid.
type Status string

// The statuses of a key.
const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Token is what the owner of a key has: its id and its secret. However it is
// printed, the secret is left out.
type Token struct {
	ID     string
	secret string
}

const (
	tokenPrefix  = "slc"
	idLength     = 12
	secretLength = 32

	// alphabet has 32 characters, so that each carries 5 bits. It lacks 0 and o,
	// and 1 and l, which are easily confused.
	alphabet = "23456789abcdefghijkmnpqrstuvwxyz"
)

// randomText returns n random characters of the alphabet.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// isRandomText reports whether s is a result of randomText(n).
func isRandomText(s string, n int) bool { return len(s) == n && consistsOf(s, alphabet) }

// consistsOf reports whether s has only these characters, which are ASCII.
// Compiling a regular expression for it would take 5 % of a cold start.
func consistsOf(s, characters string) bool { return strings.Trim(s, characters) == "" }

// ParseToken parses the text of a token. ok is false if text is not one.
func ParseToken(text string) (t Token, ok bool) {
	parts := strings.Split(text, "_")
	if len(parts) != 3 || parts[0] != tokenPrefix || !isRandomText(parts[1], idLength) || !isRandomText(parts[2], secretLength) {
		return Token{}, false
	}
	// A substring would keep the whole text in memory for as long as the id.
	return Token{ID: strings.Clone(parts[1]), secret: parts[2]}, true
}

// Reveal returns the whole text, including the secret: slc_<id>_<secret>.
func (t Token) Reveal() string { return strings.Join([]string{tokenPrefix, t.ID, t.secret}, "_") }

// String returns the text without the secret.
func (t Token) String() string { return tokenPrefix + "_" + t.ID + "_…" }

// GoString returns the text without the secret.
func (t Token) GoString() string { return t.String() }

func (t Token) hash() Hash { return sha256.Sum256([]byte(t.secret)) }
