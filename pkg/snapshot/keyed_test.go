package snapshot

import (
	"context"
	"fmt"
	"testing"
)

func TestGuessedKeysAreBoundedAndEvictNoKeyThatExists(t *testing.T) {
	t.Parallel()
	reads := 0
	k, err := NewKeyed(func(_ context.Context, key string) (string, bool, error) {
		if key != "real" {
			return "", false, nil
		}
		reads++
		return "value", true, nil
	}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key, want string) {
		t.Helper()
		if got, err := k.Get(t.Context(), key); err != nil || got != want {
			t.Fatalf("%s: %q, error %v", key, got, err)
		}
	}
	ask("real", "value")
	for n := range 3 * maxKeys {
		ask(fmt.Sprint(n), "")
		if len(k.others) > maxKeys {
			t.Fatalf("%d keys that do not exist are cached", len(k.others))
		}
	}
	ask("real", "value")
	if reads != 1 || len(k.known) != 1 {
		t.Errorf("the key was read %d times; %d keys are cached", reads, len(k.known))
	}
}

func TestKeysThatExistAreBounded(t *testing.T) {
	t.Parallel()
	k, err := NewKeyed(func(_ context.Context, key string) (string, bool, error) { return key, true, nil }, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 * maxKeys {
		key := fmt.Sprint(n)
		if got, err := k.Get(t.Context(), key); err != nil || got != key || k.known[key] == nil {
			t.Fatalf("%s: %q, error %v", key, got, err)
		}
		if got := len(k.known); got > maxKeys || n < maxKeys && got != n+1 || len(k.others) > 0 {
			t.Fatalf("%d keys after %d, and %d others", got, n+1, len(k.others))
		}
	}
}
