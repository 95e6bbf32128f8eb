// Package secrettest creates API keys and checks that programs do not print their secrets.
package secrettest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/access"
)

var kept struct {
	sync.Mutex
	secrets []string
}

// New calls access.New and remembers the secret.
func New(t testing.TB, k access.Key, now time.Time) (access.Key, access.Token) {
	t.Helper()
	k, token, err := access.New(k, now)
	if err != nil {
		t.Fatal(err)
	}
	Keep(token.Reveal())
	return k, token
}

// Keep remembers the secret of a token that a program has created.
func Keep(token string) {
	kept.Lock()
	defer kept.Unlock()
	kept.secrets = append(kept.secrets, token[strings.LastIndexByte(token, '_')+1:])
}

// Check fails the test if output contains a secret that New or Keep has remembered.
func Check(t testing.TB, program, output string) {
	t.Helper()
	kept.Lock()
	defer kept.Unlock()
	for _, secret := range kept.secrets {
		if strings.Contains(output, secret) {
			t.Errorf("%s wrote the secret of an API key", program)
		}
	}
}
