package access

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// How many reads of keys in a second may find that a token of an unknown id is not valid.
const (
	maxGuesses          = 50 // of an instance
	maxGuessesOfAddress = 10
)

// guesses bounds the reads of ids that may not exist. It is safe for concurrent use.
type guesses struct {
	now func() time.Time

	mu      sync.Mutex
	second  int64
	failed  map[netip.Prefix]int // in this second, by client
	reading map[netip.Prefix]int // reads in progress, by client
	ended   chan struct{}        // closed when a read ends
}

func newGuesses(now func() time.Time) *guesses {
	return &guesses{now: now, failed: make(map[netip.Prefix]int), reading: make(map[netip.Prefix]int), ended: make(chan struct{})}
}

// begin reports whether another id may be read for a client. A read in progress may fail too, so if
// the bound depends on it, begin waits until it ends: keys that are valid use nothing up. After true,
// end must be called.
func (g *guesses) begin(ctx context.Context, client netip.Prefix) bool {
	for {
		g.mu.Lock()
		if second := g.now().Unix(); second != g.second {
			g.second = second
			clear(g.failed)
		}
		failed, reading := total(g.failed), total(g.reading)
		if failed >= maxGuesses || g.failed[client] >= maxGuessesOfAddress {
			g.mu.Unlock()
			return false
		}
		if failed+reading < maxGuesses && g.failed[client]+g.reading[client] < maxGuessesOfAddress {
			g.reading[client]++
			g.mu.Unlock()
			return true
		}
		ended := g.ended
		g.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *guesses) end(client netip.Prefix, valid bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reading[client]--; g.reading[client] == 0 {
		delete(g.reading, client)
	}
	if !valid {
		g.failed[client]++
	}
	close(g.ended)
	g.ended = make(chan struct{})
}

// total adds at most maxGuesses numbers.
func total(counts map[netip.Prefix]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
