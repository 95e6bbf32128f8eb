package access_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

// docs/rate-limiting.md uses these figures.
func TestTenThousandKeysOfAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, minutes, every = 10_000, 5, 10 * time.Second // so each is used between 45 and 60 s after it was read
		var stored []access.Key
		var tokens []string
		for range keys {
			k, token := secrettest.New(t, access.Key{Workspace: "w", Plan: "pro", Scopes: access.Scopes()}, time.Now())
			stored, tokens = append(stored, k), append(tokens, token.Reveal())
		}
		s := newStore(stored...)
		s.delay = 5 * time.Millisecond
		before := heapSize()
		a := newAuthenticator(t, s, nil)
		waited, uses := 0, 0
		for range int(minutes * time.Minute / every) {
			for _, token := range tokens {
				begun := time.Now()
				d, err := a.Precheck(t.Context(), token, client, nat(1))
				if err != nil || d.Key.ID == "" {
					t.Fatalf("%+v, error %v", d, err)
				}
				if uses++; time.Since(begun) > 0 {
					waited++
				}
				if time.Since(begun) == 0 {
					time.Sleep(every / keys)
				}
			}
		}
		synctest.Wait()
		size := heapSize() - before
		reads := 0
		for _, k := range stored {
			reads += s.count(k.ID)
		}
		t.Logf("%d keys: %d bytes each, %d reads a minute, %.2f%% of %d uses did not wait for a read", keys, size/keys, reads/minutes, 100*float64(uses-waited)/float64(uses), uses)
		if waited != keys || reads > keys*(1+minutes*60/40) || size/keys > 1500 {
			t.Errorf("%d uses waited for a read, want only the first of each key; %d reads; %d bytes", waited, reads, size)
		}
		runtime.KeepAlive(a)
	})
}

func heapSize() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
