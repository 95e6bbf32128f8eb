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

// Key lets whoever has its secret use the routes of its scopes, on the records
// of its workspace.
type Key struct {
	ID         string // 12 characters; no secret
	Name       string // for people; up to 128 characters, may be empty
	Workspace  string
	Scopes     []Scope // at least one, sorted
	SecretHash Hash
	CreatedAt  time.Time // in UTC, to the millisecond, as are the others
	ExpiresAt  time.Time // from then on it opens nothing; zero: never
	RevokedAt  time.Time // zero: it is not
}

// Hash is the SHA-256 of a key's secret. A slower hash would guard secrets that
// people think up; these have 160 random bits. Its text is hexadecimal.
type Hash [sha256.Size]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what String writes.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("not a SHA-256 in hexadecimal")
	}
	copy(h[:], b)
	return nil
}

// New makes a key like k, of which the name, the workspace, the scopes and the
// expiry are used, and the token that opens it. It fails when one of those
// cannot be accepted.
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

// Validate says what keeps k from being a key.
func (k Key) Validate() error {
	if len(k.ID) != idLength || !consistsOf(k.ID, isTokenChar) {
		return fmt.Errorf("%q is not the id of a key", k.ID)
	}
	if detail := CheckWorkspace(k.Workspace); detail != "" {
		return fmt.Errorf("the workspace %q %s", k.Workspace, detail)
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

// Status is what k is worth at the time now.
func (k Key) Status(now time.Time) Status {
	switch {
	case !k.RevokedAt.IsZero():
		return Revoked
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt):
		return Expired
	}
	return Active
}

// Status says whether a key that is there opens anything.
type Status string

// The statuses of a key.
const (
	Active  Status = "active"
	Expired Status = "expired"
	Revoked Status = "revoked"
)

// Token is what the owner of a key has: its id and its secret. It prints
// without the secret, whatever prints it.
type Token struct {
	ID     string
	secret string
}

const (
	tokenPrefix  = "slc"
	idLength     = 12
	secretLength = 32

	// alphabet has 32 characters, 5 bits each, and none of 0 and o, 1 and l.
	alphabet = "23456789abcdefghijkmnpqrstuvwxyz"
)

func isTokenChar(c byte) bool { return strings.IndexByte(alphabet, c) >= 0 }

// randomText is n random characters of the alphabet.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // it never fails: package crypto/rand
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)]
	}
	return string(b)
}

// ParseToken reads the text of a token. ok is false for anything else.
func ParseToken(text string) (t Token, ok bool) {
	prefix, rest, _ := strings.Cut(text, "_")
	id, secret, _ := strings.Cut(rest, "_")
	if prefix != tokenPrefix || len(id) != idLength || len(secret) != secretLength || !consistsOf(id+secret, isTokenChar) {
		return Token{}, false
	}
	// A substring would keep the whole text in memory for as long as the id.
	return Token{ID: strings.Clone(id), secret: secret}, true
}

// Reveal is the whole text, secret included: slc_<id>_<secret>.
func (t Token) Reveal() string { return strings.Join([]string{tokenPrefix, t.ID, t.secret}, "_") }

// String is the text without the secret.
func (t Token) String() string { return tokenPrefix + "_" + t.ID + "_…" }

// GoString is String.
func (t Token) GoString() string { return t.String() }

func (t Token) hash() Hash { return sha256.Sum256([]byte(t.secret)) }
