package bolt_test

import (
	"maps"
	"path/filepath"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/ratelimit"
)

func TestSumsAreReadBackAndRemoved(t *testing.T) {
	t.Parallel()
	s, err := bolt.NewSums(filepath.Join(t.TempDir(), "usage.db"))
	if err != nil {
		t.Fatal(err)
	}
	day := ratelimit.Sum{Identity: "key:7m3kq2xw9abc", Counter: "records", Period: ratelimit.Day, Start: 1_800_000_000}
	month := day
	month.Period = ratelimit.Month
	want := make(map[ratelimit.Sum]int64)
	for _, change := range []map[ratelimit.Sum]int64{nil, {day: 1, month: 1 << 50}, {day: 1000}, {day: 0}} {
		if len(change) > 0 {
			if err := s.SaveSums(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		for of, n := range change {
			if want[of] = n; n == 0 {
				delete(want, of)
			}
		}
		if got, err := s.Sums(t.Context()); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, error %v; want %v", got, err, want)
		}
	}
}
