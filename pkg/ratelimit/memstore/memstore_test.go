package memstore

import (
	"fmt"
	"testing"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) ratelimit.Store { return New() })
}

func TestUsageStore(t *testing.T) {
	storetest.RunUsage(t, func(*testing.T) (ratelimit.Store, ratelimit.UsageStore) {
		s := New()
		return s, s
	})
}

func TestOldWindowsAreDropped(t *testing.T) {
	const recent, minute = retainedWindows + 1, ratelimit.UsageWindows
	for _, tt := range []struct{ addresses, seconds, kept int }{
		{1, minute + 10, minute},
		{maxHistory / (minute - recent), minute + 10, minute},
		{maxHistory / 2, recent + 4, recent + 2},
		{maxHistory, recent + 3, recent + 1},
		{maxHistory + 1, recent + 2, recent},
	} {
		t.Run(fmt.Sprintf("%d addresses a second", tt.addresses), func(t *testing.T) {
			t.Parallel()
			s := New()
			for w := range ratelimit.Window(tt.seconds) {
				for i := range tt.addresses {
					key := ratelimit.Key{Address: fmt.Sprint(i), Class: ratelimit.Import, Window: w}
					if _, err := s.Charge(t.Context(), key, []ratelimit.Counter{{Name: "a", Limit: 1, Cost: 1}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n := len(s.windows); n != tt.kept {
				t.Errorf("%d windows are kept, want %d", n, tt.kept)
			}
		})
	}
}
