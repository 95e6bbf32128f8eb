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
	plans  map[string]Row // by name
}

// NewRows indexes rows by block, key id and plan. It fails if one of them is not valid.
func NewRows(rows []Row) (*Rows, error) {
	t := &Rows{keys: make(map[string]Row), plans: make(map[string]Row)}
	for _, r := range rows {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("row %s: %w", r.Name(), err)
		}
		switch {
		case r.Plan != "":
			t.plans[r.Plan] = r
		case r.KeyID != "":
			t.keys[r.KeyID] = r
		default:
			t.blocks.Insert(r.CIDR, r)
		}
	}
	return t, nil
}

// Caller is what is known about who sends a request. A key that has not been verified must not be in
// it.
type Caller struct {
	Address netip.Prefix // as ParseAddress returns it
	KeyID   string       // of the key that is counted; "" without a key
	Plan    string       // of the key that is counted; "" if it has none
	Used    string       // id of the key in the request; it matters only if another is counted for it
}

// Match says who is counted for a request, and by which rows.
type Match struct {
	Identity    string
	Rows        []Row  // what the first does not set, the second does; none if the defaults apply
	MissingPlan string // the plan of the key, if it has no row; "" while no rows have been read
}

// Limits returns the limits and the action that the rows set. A zero field means the default.
func (m Match) Limits() (l Limits) {
	for _, r := range m.Rows {
		l = l.Or(r.Limits())
	}
	return l
}

// Find returns who is counted for a request, and the rows that set the limits. The first of these
// that has not expired applies:
//
//   - the row of the address, if it blocks: no key gets past a block
//   - the row of the key in the request, if another key is counted for it, and the row blocks
//   - the row of the key, and for each limit that it does not set, the row of the key's plan
//   - the row of the address; if several blocks contain it, the one with the longest prefix
//
// The key is counted if it has a row or a plan and the address is not blocked, or if the address is
// the zero Prefix. Otherwise the address is counted. A key whose plan has no row is counted too.
func (t *Rows) Find(c Caller, now time.Time) Match {
	ofAddress, ok := t.ofAddress(c.Address, now)
	if ok && ofAddress.Blocks() {
		return Match{Identity: AddressIdentity(c.Address), Rows: []Row{ofAddress}}
	}
	m := Match{Identity: KeyIdentity(c.KeyID)}
	if r, ok := t.OfKey(c.Used, now); ok && r.Blocks() {
		m.Rows = []Row{r}
		return m
	}
	if r, ok := t.OfKey(c.KeyID, now); ok {
		m.Rows = append(m.Rows, r)
	}
	if r, ok := t.ofPlan(c.Plan); ok {
		m.Rows = append(m.Rows, r)
	} else if t != nil {
		m.MissingPlan = c.Plan
	}
	if len(m.Rows) > 0 || c.Plan != "" || !c.Address.IsValid() {
		return m
	}
	m.Identity = AddressIdentity(c.Address)
	if ok {
		m.Rows = []Row{ofAddress}
	}
	return m
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

// OfKey returns the row of a key, if it has one that has not expired.
func (t *Rows) OfKey(id string, now time.Time) (r Row, ok bool) {
	if t == nil {
		return Row{}, false
	}
	if r, ok = t.keys[id]; !ok || r.Expired(now) {
		return Row{}, false
	}
	return r, true
}

func (t *Rows) ofPlan(name string) (r Row, ok bool) {
	if t == nil {
		return Row{}, false
	}
	r, ok = t.plans[name]
	return r, ok
}
