package ratelimit

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// Rows is a searchable set of rows. It is safe for concurrent use. A nil *Rows has no rows.
type Rows struct {
	blocks bart.Table[Row]
	keys   map[string]Row // by id
}

// NewRows indexes rows by block and key id. It fails if one of them is not valid.
func NewRows(rows []Row) (*Rows, error) {
	t := &Rows{keys: make(map[string]Row)}
	for _, r := range rows {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("row %s: %w", r.Subject(), err)
		}
		if r.KeyID != "" {
			t.keys[r.KeyID] = r
		} else {
			t.blocks.Insert(r.CIDR, r)
		}
	}
	return t, nil
}

// Counted returns the identity under which a request is counted. That is its API key if the key
// has an unexpired row, and otherwise its address. Requests from a blocked address are always
// counted under the address, so that no key gets past the block. The address must be in the form
// that ParseAddress returns.
func (t *Rows) Counted(address, keyID string, now time.Time) string {
	key := KeyIdentity(keyID)
	if _, ok := t.Find(key, now); !ok {
		return address
	}
	if r, ok := t.Find(address, now); ok && r.Action == ActionBlock {
		return address
	}
	return key
}

// Find returns the row that applies to an identity, ignoring expired rows. If several blocks
// contain an address, the row with the longest prefix applies.
func (t *Rows) Find(identity string, now time.Time) (r Row, ok bool) {
	if t == nil {
		return Row{}, false
	}
	if id, ok := KeyID(identity); ok {
		if r, ok = t.keys[id]; ok && !r.Expired(now) {
			return r, true
		}
		return Row{}, false
	}
	if t.blocks.Size() == 0 {
		return Row{}, false
	}
	client, err := netip.ParsePrefix(identity) // the identity of an IPv6 client is a prefix; see ParseAddress
	if err != nil {
		addr, err := netip.ParseAddr(identity)
		if err != nil {
			return Row{}, false
		}
		client = netip.PrefixFrom(addr, addr.BitLen())
	}
	for _, r := range t.blocks.Supernets(client) { // longest prefix first
		if !r.Expired(now) {
			return r, true
		}
	}
	return Row{}, false
}
