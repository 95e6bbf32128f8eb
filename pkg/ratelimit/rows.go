package ratelimit

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
)

// Rows finds the row of an address. It is safe for concurrent use. A nil *Rows has none.
type Rows struct {
	rows bart.Table[Row]
}

// NewRows returns an error if a row is not valid.
func NewRows(rows []Row) (*Rows, error) {
	t := new(Rows)
	for _, r := range rows {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("row %v: %w", r.CIDR, err)
		}
		t.rows.Insert(r.CIDR, r)
	}
	return t, nil
}

// Find returns the row that applies to an address, a result of ParseAddress: the one with the
// longest prefix among those that contain it and have not expired by now.
func (t *Rows) Find(address string, now time.Time) (r Row, ok bool) {
	if t == nil || t.rows.Size() == 0 {
		return Row{}, false
	}
	client, err := netip.ParsePrefix(address) // the address of an IPv6 client is a prefix; see ParseAddress
	if err != nil {
		addr, err := netip.ParseAddr(address)
		if err != nil {
			return Row{}, false
		}
		client = netip.PrefixFrom(addr, addr.BitLen())
	}
	for _, r := range t.rows.Supernets(client) { // the longest prefix first
		if !r.Expired(now) {
			return r, true
		}
	}
	return Row{}, false
}
