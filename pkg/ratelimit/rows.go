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
			return nil, fmt.Errorf("row %s: %w", r.Name(), err)
		}
		if r.KeyID != "" {
			t.keys[r.KeyID] = r
		} else {
			t.blocks.Insert(r.CIDR, r)
		}
	}
	return t, nil
}

// Find returns who is counted for a request from address with the API key keyID, and the row that
// sets the limits; ok is false if there is none. The first of these rows that has not expired
// applies:
//
//   - the row of the address, if it blocks: no key gets past a block
//   - the row of the key
//   - the row of the address; if several blocks contain it, the one with the longest prefix
//
// The key is counted if it has a row and the address is not blocked, or if address is the zero
// Prefix. Otherwise the address is counted. keyID is "" for a request without a key.
func (t *Rows) Find(address netip.Prefix, keyID string, now time.Time) (identity string, r Row, ok bool) {
	ofAddress, ok := t.ofAddress(address, now)
	if ofAddress.Action != ActionBlock {
		if r, ok := t.ofKey(keyID, now); ok {
			return KeyIdentity(keyID), r, true
		}
	}
	if !address.IsValid() {
		return KeyIdentity(keyID), Row{}, false
	}
	return AddressIdentity(address), ofAddress, ok
}

func (t *Rows) ofAddress(address netip.Prefix, now time.Time) (r Row, ok bool) {
	if t == nil || t.blocks.Size() == 0 {
		return Row{}, false
	}
	for _, r := range t.blocks.Supernets(address) { // longest prefix first
		if !r.Expired(now) {
			return r, true
		}
	}
	return Row{}, false
}

func (t *Rows) ofKey(id string, now time.Time) (r Row, ok bool) {
	if t == nil {
		return Row{}, false
	}
	if r, ok = t.keys[id]; !ok || r.Expired(now) {
		return Row{}, false
	}
	return r, true
}
