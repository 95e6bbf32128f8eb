package snapshot

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
	const most = 100
	k.others.most = most
	ask("real", "value")
	for n := range 6 * most {
		ask(fmt.Sprint(n), "")
		if k.others.size() > 2*most {
			t.Fatalf("%d keys that do not exist are cached", k.others.size())
		}
	}
	ask("real", "value")
	if reads != 1 || k.known.size() != 1 {
		t.Errorf("the key was read %d times; %d keys are cached", reads, k.known.size())
	}
}

// The keys that were used last are kept, and so are all in use while there are at most so many.
func TestKeysInUseAreKept(t *testing.T) {
	t.Parallel()
	const most = 100
	reads := make(map[string]int)
	k, err := NewKeyed(func(_ context.Context, key string) (string, bool, error) {
		reads[key]++
		return key, true, nil
	}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	k.known.most = most
	for n := range 4 * most {
		for _, key := range []string{fmt.Sprint(n), "always"} {
			if got, err := k.Get(t.Context(), key); err != nil || got != key || !k.Known(key) {
				t.Fatalf("%s: %q, error %v", key, got, err)
			}
		}
		if k.known.size() > 2*most || k.others.size() > 0 {
			t.Fatalf("%d keys after %d, and %d others", k.known.size(), n+1, k.others.size())
		}
	}
	for n := 3*most + 1; n < 4*most; n++ {
		if _, err := k.Get(t.Context(), fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	for key, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times", key, n)
		}
	}
}

func TestAKeyThatExistsIsReadAgainBeforeItsCopyIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 500 * time.Millisecond
		reads := 0
		k, err := NewKeyed(func(_ context.Context, key string) (int, bool, error) {
			time.Sleep(takes)
			reads++
			return reads, key == "real", nil
		}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		get := func(key string, wait time.Duration) {
			t.Helper()
			begun := time.Now()
			if _, err := k.Get(t.Context(), key); err != nil || time.Since(begun) != wait {
				t.Errorf("%s at %v: waited %v, error %v", key, begun, time.Since(begun), err)
			}
		}
		if k.Known("real") || k.Known("other") {
			t.Error("a key is known before it was read")
		}
		get("real", takes)
		get("other", takes)
		for range 600 {
			time.Sleep(time.Second)
			get("real", 0)
		}
		if reads != 2+600/45 {
			t.Errorf("%d reads", reads)
		}
		if !k.Known("real") || k.Known("other") {
			t.Error("after ten minutes only the key that exists is known")
		}
	})
}
