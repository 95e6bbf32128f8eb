package dynamo

import (
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/ratelimit"
)

// maxLedgers is the most ledgers of each generation that an instance remembers, at about 500 bytes each.
const maxLedgers = 1 << 13

// seenLedger is what the last response showed of a ledger.
type seenLedger struct {
	at    time.Time // the Date of the response, in whole seconds; zero if it had none
	floor ratelimit.Window
	names []string // of counters, the oldest first
}

// ledgers remembers the ledgers that were charged last. What it has forgotten, other instances and
// later charges remove. It is safe for concurrent use.
type ledgers struct {
	mu         sync.Mutex
	young, old map[ledgerID]seenLedger
}

func (m *ledgers) get(id ledgerID) seenLedger {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.young[id]; ok {
		return l
	}
	return m.old[id]
}

func (m *ledgers) put(id ledgerID, l seenLedger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= maxLedgers {
		m.old, m.young = m.young, make(map[ledgerID]seenLedger)
	}
	m.young[id] = l
}

func (m *ledgers) forget(id ledgerID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, id)
	delete(m.old, id)
}

// A clock more than badClock from DynamoDB's is wrong. Charges then count by DynamoDB's.
const badClock = 3 * time.Second

// ledgerClock corrects a clock that is more than badClock from DynamoDB's.
type ledgerClock struct{ ahead atomic.Int64 } // seconds to add

func (c *ledgerClock) correction() ratelimit.Window { return ratelimit.Window(c.ahead.Load()) }

// learn compares the Date of a response, in whole seconds, with the clock when the request was sent and
// when the response had come. Between the two the process may have been frozen, so only what both
// say counts.
func (c *ledgerClock) learn(date, sent, came time.Time) {
	if date.IsZero() {
		return
	}
	sent, came = sent.Round(0), came.Round(0) // without the monotonic reading, which stops while Lambda freezes the process
	switch behind, ahead := date.Sub(came), sent.Sub(date.Add(time.Second)); {
	case behind > badClock:
		c.ahead.Store(int64(behind / time.Second))
	case ahead > badClock:
		c.ahead.Store(-int64(ahead / time.Second))
	default:
		c.ahead.Store(0)
	}
}
