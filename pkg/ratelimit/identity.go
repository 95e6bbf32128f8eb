package ratelimit

import (
	"fmt"
	"net/netip"
	"strings"
)

// No address begins with keyPrefix.
const keyPrefix = "key:"

// KeyIdentity returns key:<id>, the identity of requests that are counted by their API key. All
// other requests are counted by their address; see [Rows.Counted].
func KeyIdentity(id string) string { return keyPrefix + id }

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

// ParseAddress returns the identity of a client with the IP address s. An IPv4 address stays
// as it is, and an IPv4-mapped IPv6 address becomes IPv4. Any other IPv6 address loses its zone
// and is cut to its first ipv6Prefix bits (1 to 128), as in 2001:db8::/64. ParseAddress fails if
// s is not an IP address, or if ipv6Prefix is needed but out of range.
func ParseAddress(s string, ipv6Prefix int) (string, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return "", fmt.Errorf("parse client address: %w", err)
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String(), nil
	}
	if ipv6Prefix < 1 {
		return "", fmt.Errorf("parse client address: the IPv6 prefix length %d is less than 1", ipv6Prefix)
	}
	prefix, err := addr.Prefix(ipv6Prefix)
	if err != nil {
		return "", fmt.Errorf("parse client address: %w", err)
	}
	return prefix.String(), nil
}
