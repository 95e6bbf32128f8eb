package client_test

import (
	"testing"
	"time"

	"sluice/pkg/client"
)

// Each page takes a minute, and its last change is a minute later than that of the page before. The
// walk passes its beginning with the fifth page.
func TestAWalkWithoutEndIsLeftAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		settled func(page int) int // page whose last change was settled
		want    int                // page with which the walk ends; 0 for none
	}{
		"the walk is behind what is settled":         {func(page int) int { return page }, 0},
		"the walk has passed what is settled":        {func(page int) int { return min(page, 3) }, 10},
		"it passes that later":                       {func(page int) int { return min(page, 20) }, 26},
		"all changes have the time of a wrong clock": {func(int) int { return 1000 }, 0},
	} {
		now := began
		chase := client.Chase{Now: func() time.Time { return now }}
		got := 0
		for page := 1; page <= 100 && got == 0; page++ {
			at := func(page int) client.Time { return client.TimeOf(began.Add(time.Duration(page-4) * time.Minute)) }
			if now = now.Add(time.Minute); chase.Over(at(tt.settled(page)), at(page), began) {
				got = page
			}
		}
		if got != tt.want {
			t.Errorf("%s: the walk ends with page %d, want %d", name, got, tt.want)
		}
	}
}
