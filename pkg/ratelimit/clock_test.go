package ratelimit

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockShowsTheSecondOfTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock(nil)
		rng := rand.New(rand.NewPCG(1, 2))
		read := 0
		for range 20_000 {
			until := c.until.Load()
			if got, want := c.window(), WindowAt(time.Now()); got != want {
				t.Fatalf("window %d at %v, want %d", got, time.Now(), want)
			}
			if c.until.Load() != until {
				read++
			}
			switch rng.IntN(10) {
			case 0:
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second - 1))) // the last nanosecond
			case 1:
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			default:
				time.Sleep(time.Duration(rng.Int64N(int64(clockHold) / 2)))
			}
		}
		if read == 0 || read > 15_000 {
			t.Errorf("the wall clock was read %d times", read)
		}
	})
}
