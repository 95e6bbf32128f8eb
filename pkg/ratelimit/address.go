package ratelimit

import (
	"fmt"
	"net/netip"
)

// DefaultIPv6Prefix is how many bits of an IPv6 address tell clients apart
// unless configured: one subscriber usually holds a whole /64.
const DefaultIPv6Prefix = 64

// ParseAddress turns the source IP address of a connection into the address
// that its requests are counted under: an IPv4 address as it is, even if it
// comes mapped into IPv6 (::ffff:192.0.2.1), an IPv6 address by its first
// ipv6Prefix bits (1 to 128), written as 2001:db8::/64. Zones are dropped. It
// fails for anything that is not an IP address.
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
		return "", fmt.Errorf("parse client address: a prefix of %d bits would make all addresses one", ipv6Prefix)
	}
	prefix, err := addr.Prefix(ipv6Prefix)
	if err != nil {
		return "", fmt.Errorf("parse client address: %w", err)
	}
	return prefix.String(), nil
}
