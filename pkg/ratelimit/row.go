package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxRows is the most rows that block which a store may have, and the most other rows. They are
// counted apart, so that other rows never stand in the way of a block. Every process keeps all of
// them in memory.
const MaxRows = 1000

const (
	maxNote       = 128       // in characters
	maxRecords    = 1_000_000 // per second; the default limit has the same maximum
	maxKeyID      = 64
	keyCharacters = "abcdefghijklmnopqrstuvwxyz0123456789"
	maxPlan       = 32
	planPrefix    = "plan:"
)

// ErrNoRow is the error for a CIDR block, an API key or a plan without a row.
var ErrNoRow = errors.New("there is no such row")

// The errors for adding a row to a store that already has MaxRows rows of its kind.
var (
	ErrTooManyBlocks = fmt.Errorf("there are already %d rows that block, the most possible: put a CIDR block in the place of addresses of one network, or remove some; --expires-in removes a row in time", MaxRows)
	ErrTooManyRows   = fmt.Errorf("there are already %d rows that do not block, the most possible: remove some", MaxRows)
)

// Row sets the limits and the action of a CIDR block, an API key or a plan, which any number of keys
// can have. The addresses in a block are still counted separately. A key that has a row or a plan is
// counted as one identity, whatever addresses its requests come from. [Rows.Find] says which rows
// apply to a request. Times are UTC, in whole seconds.
type Row struct {
	CIDR       netip.Prefix `json:"cidr,omitzero"`   // without host bits; zero if the row is for a key or a plan
	KeyID      string       `json:"key_id,omitzero"` // 1 to 64 characters from a-z and 0-9; empty if the row is for a block or a plan
	Plan       string       `json:"plan,omitzero"`   // name of the plan, see IsPlan; empty if the row is for a block or a key
	Action     Action       `json:"action"`
	Records    int64        `json:"records,omitzero"`  // 1 to 1,000,000 per second; 0 means the default
	Imports    int64        `json:"imports,omitzero"`  // 1 to MaxPerPartition per second; 0 means the default
	Requests   int64        `json:"requests,omitzero"` // 1 to MaxPerPartition per second; 0 means the default
	Quotas                  // of a key, or of each key that has the plan
	ExportJobs bool         `json:"export_jobs,omitzero"` // see Limits.ExportJobs
	Note       string       `json:"note,omitzero"`        // for operators; at most 128 characters, may be empty
	UpdatedAt  time.Time    `json:"updated_at"`
	ExpiresAt  time.Time    `json:"expires_at,omitzero"` // when the row stops applying; zero means never
}

// NewRow returns r with UpdatedAt set to now, in whole seconds. It fails if a field is not
// valid or r has already expired.
func NewRow(r Row, now time.Time) (Row, error) {
	if r.Action == "" {
		r.Action = ActionLimit
	}
	r.UpdatedAt = now.UTC().Truncate(time.Second)
	if !r.ExpiresAt.IsZero() {
		r.ExpiresAt = r.ExpiresAt.UTC().Truncate(time.Second)
		if !r.ExpiresAt.After(r.UpdatedAt) {
			return Row{}, errors.New("the expiry of the row must be in the future")
		}
	}
	return r, r.Validate()
}

// CheckSent returns an error if r, as a client sent it, would set nothing, or is a plan with an action.
func (r Row) CheckSent() error {
	l := r.Limits()
	switch {
	case r.Plan != "" && cmp.Or(r.Action, ActionLimit) != ActionLimit:
		return errors.New("a plan has limits, and no action")
	case r.Plan != "":
		l.Action = ""
	}
	if (l == Limits{}) {
		return errors.New("the row would set nothing; set a limit or, for an address or a key, an action, of which limit gives the defaults")
	}
	return nil
}

// Validate returns nil if r is valid, and otherwise an error that says which field is not.
func (r Row) Validate() error {
	if err := r.validateName(); err != nil {
		return err
	}
	if r.Action == "" {
		return errors.New("the action is missing")
	}
	if _, err := r.Limits().Check(0); err != nil {
		return err
	}
	if r.Records > maxRecords {
		return fmt.Errorf("the limit of records, %d, is above %d", r.Records, maxRecords)
	}
	sets := Limits{Records: r.Records, Imports: r.Imports, Requests: r.Requests, Quotas: r.Quotas, ExportJobs: r.ExportJobs}
	if r.Action == ActionBlock && sets != (Limits{}) {
		return errors.New("the action block refuses every request, so limits have no effect; leave them out")
	}
	if r.CIDR.IsValid() && (r.Quotas != Quotas{} || r.ExportJobs) {
		return errors.New("only API keys and plans have quotas and export jobs; addresses have limits per second")
	}
	if !utf8.ValidString(r.Note) || utf8.RuneCountInString(r.Note) > maxNote || strings.ContainsFunc(r.Note, unicode.IsControl) {
		return fmt.Errorf("the note must have at most %d characters and no control characters", maxNote)
	}
	return nil
}

func (r Row) validateName() error {
	switch {
	case r.Plan != "":
		if r.CIDR.IsValid() || r.KeyID != "" || !IsPlan(r.Plan) {
			return fmt.Errorf("%q is not the name of a plan: a name has 1 to %d of the characters a-z 0-9 . _ -", r.Plan, maxPlan)
		}
	case r.KeyID != "":
		if r.CIDR.IsValid() || len(r.KeyID) > maxKeyID || strings.Trim(r.KeyID, keyCharacters) != "" {
			return fmt.Errorf("%q is not the id of an API key", r.KeyID)
		}
	case !r.CIDR.IsValid() || r.CIDR != r.CIDR.Masked() || r.CIDR.Addr().Is4In6():
		return fmt.Errorf("%v is not a CIDR block", r.CIDR)
	}
	return nil
}

// IsPlan reports whether s can be the name of a plan: 1 to 32 of the characters a-z 0-9 . _ -.
func IsPlan(s string) bool {
	return s != "" && len(s) <= maxPlan && strings.Trim(s, keyCharacters+"._-") == ""
}

// Name returns what the row applies to: 192.0.2.0/24, key:7m3kq2xw9abc or plan:pro. A store has at
// most one row per name.
func (r Row) Name() string {
	switch {
	case r.Plan != "":
		return planPrefix + r.Plan
	case r.KeyID != "":
		return KeyIdentity(r.KeyID)
	}
	return r.CIDR.String()
}

// ParseRowName parses an address, or a name in the format of [Row.Name], and returns a row for it
// that sets no limits. See [ParseCIDR] for ipv6Prefix.
func ParseRowName(s string, ipv6Prefix int) (r Row, err error) {
	if name, ok := strings.CutPrefix(s, planPrefix); ok {
		r = Row{Plan: name, Action: ActionLimit}
		return r, r.Validate()
	}
	if id, ok := KeyID(s); ok {
		r = Row{KeyID: id, Action: ActionLimit}
		return r, r.Validate()
	}
	r.CIDR, err = ParseCIDR(s, ipv6Prefix)
	return r, err
}

// Blocks reports whether the row blocks, and so which rows MaxRows counts together with it.
func (r Row) Blocks() bool { return r.Action == ActionBlock }

// CheckRoom returns ErrTooManyBlocks or ErrTooManyRows if a store has no room for r, because it has
// others rows with other names that have not expired and block if r does.
func (r Row) CheckRoom(others int) error {
	switch {
	case others < MaxRows:
		return nil
	case r.Blocks():
		return ErrTooManyBlocks
	}
	return ErrTooManyRows
}

// Compare orders rows: keys by id, plans by name, then blocks as [netip.Prefix.Compare] orders them.
func (r Row) Compare(other Row) int {
	return cmp.Or(r.CIDR.Compare(other.CIDR), strings.Compare(r.Plan, other.Plan), strings.Compare(r.KeyID, other.KeyID))
}

// Limits returns the limits and the action of r. A zero field means the default.
func (r Row) Limits() Limits {
	return Limits{Records: r.Records, Imports: r.Imports, Requests: r.Requests, Quotas: r.Quotas, ExportJobs: r.ExportJobs, Action: r.Action}
}

// Expired reports whether now is at or after ExpiresAt. A row without ExpiresAt never expires.
func (r Row) Expired(now time.Time) bool { return !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt) }

// ParseCIDR parses a CIDR block, or an address as a block of one address. ipv6Prefix is how many
// leading bits identify an IPv6 client. An IPv6 block with a longer prefix is an error, because
// its row would never apply. Where possible, the error suggests a valid block.
func ParseCIDR(s string, ipv6Prefix int) (netip.Prefix, error) {
	block, err := netip.ParsePrefix(s)
	if err != nil {
		addr, addrErr := netip.ParseAddr(s)
		if addrErr != nil {
			return netip.Prefix{}, fmt.Errorf("%q is not a CIDR block or an address, such as 192.0.2.0/24 or 2001:db8::/32", s)
		}
		addr = addr.Unmap().WithZone("")
		block = netip.PrefixFrom(addr, addr.BitLen())
	}
	const mappedBits = 96 // length of ::ffff:0:0/96, the prefix of IPv4-mapped addresses
	if addr := block.Addr(); addr.Is4In6() {
		if block.Bits() < mappedBits {
			return netip.Prefix{}, fmt.Errorf("%s also contains addresses that are not IPv4; write IPv4 blocks like 192.0.2.0/24", s)
		}
		block = netip.PrefixFrom(addr.Unmap(), block.Bits()-mappedBits)
	}
	if block.Addr().Is6() && block.Bits() > ipv6Prefix {
		network, _ := block.Addr().Prefix(ipv6Prefix)
		return netip.Prefix{}, fmt.Errorf("the prefix of %s is longer than /%d, the part of an address that identifies an IPv6 client (CLIENT_IPV6_PREFIX); use %s", s, ipv6Prefix, network)
	}
	if block != block.Masked() {
		return netip.Prefix{}, fmt.Errorf("%s has bits set after its prefix; use %s", s, block.Masked())
	}
	return block, nil
}

// InvalidRows holds one error for each row that is invalid and therefore does not apply.
type InvalidRows []error

// Error returns a message with the number of invalid rows and the error of the first.
func (e InvalidRows) Error() string {
	return fmt.Sprintf("the limits table has invalid rows, which do not apply (%d): %v", len(e), e[0])
}

// RowStore reads rows. Implementations must be safe for concurrent use.
type RowStore interface {
	// List returns all rows as last written, in the order of Row.Compare; expired rows may be
	// missing. If some rows are invalid, List returns InvalidRows along with the valid rows.
	List(ctx context.Context) ([]Row, error)
}

// RowManager is a RowStore that can change its rows.
type RowManager interface {
	RowStore

	// Put adds a row, which must be valid, or replaces the row with the same name. If there is no
	// room (see Row.CheckRoom) at r.UpdatedAt, Put returns that error and changes nothing. Concurrent
	// calls may exceed MaxRows by a few rows.
	Put(ctx context.Context, r Row) error

	// Remove removes the row with that name, or returns ErrNoRow if there is none.
	Remove(ctx context.Context, name string) error
}
