package access_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

func now() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 678_900_000, time.UTC) }

func newKey(t testing.TB) (access.Key, access.Token) {
	t.Helper()
	return secrettest.New(t, access.Key{Workspace: "default", Scopes: []access.Scope{access.Import}}, now())
}

func TestParseTokenReturnsTheTokenThatNewCreated(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		k, token := newKey(t)
		text := token.Reveal()
		got, ok := access.ParseToken(text)
		if !ok || got != token || got.ID != k.ID {
			t.Fatalf("%v, %v", got, ok)
		}
		parts := strings.Split(text, "_")
		// 32 characters of 5 bits each are 160 bits.
		if len(parts) != 3 || parts[0] != "slc" || len(parts[1]) != 12 || len(parts[2]) != 32 || strings.ContainsAny(parts[1]+parts[2], "01lo") || strings.ToLower(text) != text {
			t.Errorf("malformed token: %s_%s_ and %d characters", parts[0], parts[1], len(parts[2]))
		}
		if seen[parts[1]] || seen[parts[2]] {
			t.Error("the id or the secret is not unique")
		}
		seen[parts[1]], seen[parts[2]] = true, true
	}
}

func TestTokensUseTheWholeAlphabet(t *testing.T) {
	used := make(map[rune]int)
	for range 200 {
		_, token := newKey(t)
		for _, c := range strings.ReplaceAll(strings.TrimPrefix(token.Reveal(), "slc_"), "_", "") {
			used[c]++
		}
	}
	// Each character should occur about 275 times. A count below 100 is more than 10 standard
	// deviations too low.
	for c, n := range used {
		if n < 100 {
			t.Errorf("%c occurs %d times", c, n)
		}
	}
	if len(used) != 32 {
		t.Errorf("%d characters are used, want 32", len(used))
	}
}

func TestParseTokenRejectsMalformedTokens(t *testing.T) {
	id, secret := strings.Repeat("a", 12), strings.Repeat("2", 32)
	good := "slc_" + id + "_" + secret
	if _, ok := access.ParseToken(good); !ok {
		t.Fatalf("%s is rejected", good)
	}
	for _, text := range []string{
		"", "slc", "slc_", "slc__", "slc_" + id, "slc_" + id + "_", id + "_" + secret,
		good + "2", good[:len(good)-1], good + "_", good + " ", " " + good, good + "\n", good + "," + good,
		"SLC_" + id + "_" + secret, strings.ToUpper(good), "slc-" + id + "-" + secret,
		"slc_" + id[1:] + "_" + secret, "slc_" + id + "a_" + secret, "slc_" + id + "_" + secret[1:],
		"slc_" + id[1:] + "l_" + secret, "slc_" + id[1:] + "o_" + secret, "slc_" + id + "_" + secret[1:] + "0", "slc_" + id + "_" + secret[1:] + "1",
		"slc_" + id + "_" + secret[1:] + "é", "slc_" + id[1:] + "\x00_" + secret, "slc_" + id[1:] + "#_" + secret,
	} {
		if _, ok := access.ParseToken(text); ok {
			t.Errorf("%q is accepted as a token", text)
		}
	}
}

// Anybody can send a text of any length, on every route.
func TestATextThatIsNotATokenCostsNothing(t *testing.T) {
	for _, text := range []string{strings.Repeat("_", 1<<20), strings.Repeat("a", 1<<20), strings.Repeat("_", 49), "slc_" + strings.Repeat("_", 45)} {
		if n := testing.AllocsPerRun(10, func() { access.ParseToken(text) }); n != 0 {
			t.Errorf("%.5s… of %d bytes: %v allocations", text, len(text), n)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, text := range []string{"", "slc__", "slc_aaaaaaaaaaaa_22222222222222222222222222222222", "slc_aaaaaaaaaaaa_2222222222222222222222222222222_"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := access.ParseToken(text)
		if ok && token.Reveal() != text {
			t.Errorf("%q is parsed as %q", text, token.Reveal())
		}
		if !ok && token != (access.Token{}) {
			t.Errorf("%q is not a token, but the result is %v", text, token)
		}
	})
}

func TestATokenPrintsWithoutItsSecret(t *testing.T) {
	k, token := newKey(t)
	marshaled, err := json.Marshal(struct {
		Token access.Token
		Key   access.Key
	}{token, k})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("key", "token", token, "key", k, "both", []any{token, k})
	slog.New(slog.NewTextHandler(&log, nil)).Info("key", "token", token, "pointer", &token)
	nested := struct{ Token access.Token }{token}
	for _, text := range []string{
		token.String(), fmt.Sprint(token), fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token),
		fmt.Sprintf("%v %+v %#v", &token, []access.Token{token}, nested), string(marshaled), log.String(),
	} {
		if _, secret, _ := strings.Cut(strings.TrimPrefix(token.Reveal(), "slc_"), "_"); strings.Contains(text, secret) {
			t.Errorf("the output contains the secret: %s", strings.ReplaceAll(text, secret, "<SECRET>"))
		}
	}
	if want := "slc_" + k.ID + "_…"; token.String() != want {
		t.Errorf("%s, want %s", token, want)
	}
}

func TestNewKeys(t *testing.T) {
	scopes := []access.Scope{access.Import}
	for _, tt := range []struct {
		name string
		key  access.Key
		says string // part of the error; "" if the key is valid
	}{
		{"plain", access.Key{Workspace: "w", Scopes: scopes}, ""},
		{"every scope, one of them twice", access.Key{Workspace: "w", Scopes: append(access.Scopes(), access.Import)}, ""},
		{"the longest workspace", access.Key{Workspace: strings.Repeat("w", 64), Scopes: scopes}, ""},
		{"a workspace that is too long", access.Key{Workspace: strings.Repeat("w", 65), Scopes: scopes}, "1 to 64"},
		{"no workspace", access.Key{Scopes: scopes}, "1 to 64"},
		{"a workspace with the separator #", access.Key{Workspace: "a#b", Scopes: scopes}, "1 to 64"},
		{"a workspace with a slash", access.Key{Workspace: "a/b", Scopes: scopes}, "1 to 64"},
		{"a workspace with a letter that is not ASCII", access.Key{Workspace: "é", Scopes: scopes}, "1 to 64"},
		{"the longest name", access.Key{Workspace: "w", Scopes: scopes, Name: strings.Repeat("é", 128)}, ""},
		{"a name that is too long", access.Key{Workspace: "w", Scopes: scopes, Name: strings.Repeat("é", 129)}, "at most 128"},
		{"a name of two lines", access.Key{Workspace: "w", Scopes: scopes, Name: "a\nb"}, "control"},
		{"a name that is not UTF-8", access.Key{Workspace: "w", Scopes: scopes, Name: "\xff"}, "128 characters"},
		{"no scope", access.Key{Workspace: "w"}, "needs a scope"},
		{"an unknown scope", access.Key{Workspace: "w", Scopes: []access.Scope{"root"}}, `the scope "root" is not one of`},
		{"the scope of public routes", access.Key{Workspace: "w", Scopes: []access.Scope{access.Public}}, `the scope "public" is not`},
		{"an empty scope", access.Key{Workspace: "w", Scopes: []access.Scope{""}}, `the scope "" is not`},
		{"an expiry in the future", access.Key{Workspace: "w", Scopes: scopes, ExpiresAt: now().Add(time.Millisecond)}, ""},
		{"an expiry at the time of creation", access.Key{Workspace: "w", Scopes: scopes, ExpiresAt: now()}, "must be in the future"},
	} {
		k, _, err := access.New(tt.key, now())
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.says)
		}
		if err != nil {
			continue
		}
		if k.CreatedAt != now().Truncate(time.Millisecond) || !slices.IsSorted(k.Scopes) || len(slices.Compact(k.Scopes)) != len(k.Scopes) || k.Status(now()) != access.Active {
			t.Errorf("%s: %+v", tt.name, k)
		}
	}
}

func TestStatus(t *testing.T) {
	later := now().Add(time.Second)
	for _, tt := range []struct {
		key  access.Key
		at   time.Time
		want access.Status
	}{
		{access.Key{}, now(), access.Active},
		{access.Key{ExpiresAt: later}, later.Add(-1), access.Active},
		{access.Key{ExpiresAt: later}, later, access.Expired},
		{access.Key{RevokedAt: later}, now(), access.Revoked}, // revoked by a process whose clock is ahead
		{access.Key{RevokedAt: later, ExpiresAt: now()}, later, access.Revoked},
	} {
		if got := tt.key.Status(tt.at); got != tt.want {
			t.Errorf("%+v at %s: %s, want %s", tt.key, tt.at, got, tt.want)
		}
	}
}

func TestUnmarshalTextReversesString(t *testing.T) {
	k, _ := newKey(t)
	var got access.Hash
	if err := got.UnmarshalText([]byte(k.SecretHash.String())); err != nil || got != k.SecretHash {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("g", 64)} {
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
