package memstore

import (
	"testing"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) ratelimit.Store { return New() })
}

func TestOldWindowsAreDropped(t *testing.T) {
	s := New()
	for w := range ratelimit.Window(10_000) {
		key := ratelimit.Key{Address: "192.0.2.1", Class: ratelimit.Import, Window: w}
		if _, err := s.Charge(t.Context(), key, []ratelimit.Counter{{Name: "a", Limit: 1, Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.windows); n != retainedWindows+1 {
		t.Errorf("%d windows are kept, want %d", n, retainedWindows+1)
	}
}
