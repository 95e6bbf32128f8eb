package ratelimit

import (
	"fmt"
	"net/netip"
	"strings"
)

// No address begins with keyPrefix.
const keyPrefix = "key:"

// Subject is who is counted for a request, and the limits in force. [Limiter.Subject] returns it.
type Subject struct {
	Identity    string // in the key of the counters: an AddressIdentity or a KeyIdentity
	Limits      Limits // with every default filled in
	MissingPlan string // the plan of the key, if it has no row, so that the defaults apply
}

// ByKey reports whether the API key of the request is counted, rather than its address.
func (s Subject) ByKey() bool {
	_, ok := KeyID(s.Identity)
	return ok
}

// Subject returns who is counted for the requests of c. [Rows.Find] says whose limits apply, and what
// they do not set is taken from Config.Limits.
func (l *Limiter) Subject(rows *Rows, c Caller) Subject {
	m := rows.Find(c, l.now())
	return Subject{Identity: m.Identity, Limits: m.Limits().Or(l.limits), MissingPlan: m.MissingPlan}
}

// KeyIdentity returns key:<id>, the identity of the API key with that id.
func KeyIdentity(id string) string { return keyPrefix + id }

// AddressIdentity returns the identity of an address: 192.0.2.1, or for IPv6 a prefix such as
// 2001:db8::/64.
func AddressIdentity(address netip.Prefix) string {
	if address.Addr().Is4() {
		return address.Addr().String()
	}
	return address.String()
}

// Named returns an identity with its kind as a prefix: key:7m3kq2xw9abc or address:192.0.2.1.
func Named(identity string) string {
	if _, ok := KeyID(identity); ok {
		return identity
	}
	return "address:" + identity
}

// KeyID returns the id of the API key in an identity; ok is false if the identity is an address.
func KeyID(identity string) (id string, ok bool) { return strings.CutPrefix(identity, keyPrefix) }

// DefaultIPv6Prefix is how many leading bits of an IPv6 address identify a client by default.
// One subscriber usually has a whole /64.
const DefaultIPv6Prefix = 64

// ParseAddress returns the part of the IP address s that identifies its client. That is all of an
// IPv4 address, and an IPv4-mapped IPv6 address becomes IPv4. Any other IPv6 address loses its
// zone and is cut to its first ipv6Prefix bits (1 to 128). ParseAddress fails if s is not an IP
// address, or if ipv6Prefix is needed but out of range.
func ParseAddress(s string, ipv6Prefix int) (netip.Prefix, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parse client address: %w", err)
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if ipv6Prefix < 1 {
		return netip.Prefix{}, fmt.Errorf("parse client address: the IPv6 prefix length %d is less than 1", ipv6Prefix)
	}
	prefix, err := addr.Prefix(ipv6Prefix)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parse client address: %w", err)
	}
	return prefix, nil
}
