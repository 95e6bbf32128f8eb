package ratelimit_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/pkg/ratelimit"
)

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201%eth0", "2001:db8:1:2:3:4:5:6", "fe80::1%eth0", "::", "::1",
		"255.255.255.255", "192.0.2.1:80", "[::1]", "2001:db8::/64", "192.0.2.01", "1.2.3", "%", "::ffff:0:0:1", "64:ff9b::192.0.2.1", ""} {
		for _, prefix := range []int{1, 56, 64, 127, 128} {
			f.Add(s, prefix)
		}
	}
	f.Add("::1", 0)
	f.Add("::1", -1)
	f.Add("192.0.2.1", 129)
	f.Fuzz(func(t *testing.T, s string, prefix int) {
		client, err := ratelimit.ParseAddress(s, prefix)
		if err != nil {
			if client.IsValid() {
				t.Fatalf("ParseAddress returned both an error and %v", client)
			}
			return
		}
		bucket := ratelimit.AddressIdentity(client)
		of := func(s string) string {
			t.Helper()
			client, err := ratelimit.ParseAddress(s, prefix)
			if err != nil {
				t.Fatalf("ParseAddress rejects %q: %v", s, err)
			}
			return ratelimit.AddressIdentity(client)
		}
		address, _, _ := strings.Cut(bucket, "/")
		if again := of(address); again != bucket {
			t.Errorf("%q is counted under %q, but %q under %q", s, bucket, address, again)
		}
		addr := netip.MustParseAddr(s).WithZone("")
		if addr.Unmap().Is4() {
			if mapped := of("::ffff:" + addr.Unmap().String()); mapped != bucket || strings.Contains(bucket, "/") {
				t.Errorf("%q is counted under %q, but its IPv4-mapped IPv6 address under %q", s, bucket, mapped)
			}
			return
		}
		if prefix < 1 || prefix > 128 {
			return
		}
		// Flipping the last bit of the prefix gives another client; flipping the next bit does not.
		if other := flip(addr, prefix-1); !other.Is4In6() && of(other.String()) == bucket {
			t.Errorf("%v and %v are both counted under %q", addr, other, bucket)
		}
		if prefix < 128 {
			if same := flip(addr, prefix); !same.Is4In6() && of(same.String()) != bucket {
				t.Errorf("%v is counted under %q, but %v under %q", addr, bucket, same, of(same.String()))
			}
		}
	})
}

// flip inverts one bit of addr; bit 0 is the leftmost.
func flip(addr netip.Addr, bit int) netip.Addr {
	b := addr.As16()
	b[bit/8] ^= 0x80 >> (bit % 8)
	return netip.AddrFrom16(b)
}

// maxFieldInteger is the largest integer that a header may have (RFC 9651, section 3.3.1).
const maxFieldInteger = 999_999_999_999_999

func FuzzHeaders(f *testing.F) {
	f.Add(true, int64(1_800_000_000), int64(200), int64(50), int64(50), int64(200), int64(1), int64(1))
	f.Add(false, int64(1_800_000_000), int64(200), int64(180), int64(30), int64(200), int64(4), int64(1))
	f.Add(true, int64(0), int64(1), int64(1), int64(1), int64(1), int64(1), int64(0))
	f.Add(false, int64(-1), int64(5), int64(8), int64(1), int64(200), int64(0), int64(1)) // the counter is above a limit that was lowered
	f.Add(true, int64(253_402_300_799), int64(maxFieldInteger), int64(0), int64(0), int64(maxFieldInteger), int64(maxFieldInteger), int64(1))
	f.Add(true, int64(1), int64(maxFieldInteger), int64(-1), int64(1<<62), int64(7), int64(1<<62), int64(1<<62))
	f.Fuzz(func(t *testing.T, allowed bool, window, limit1, used1, cost1, limit2, used2, cost2 int64) {
		number := func(n, from, to int64) int64 { return from + int64(uint64(n-from)%uint64(to-from+1)) }
		d := ratelimit.Decision{
			Allowed: allowed,
			Window:  ratelimit.Window(number(window, -maxFieldInteger, maxFieldInteger-1)),
			Counts: []ratelimit.Count{
				{Rule: ratelimit.Rule{Name: ratelimit.RuleRecords, Limit: number(limit1, 1, maxFieldInteger)}, Cost: number(cost1, 0, 1<<62), Used: number(used1, 0, 1<<62)},
				{Rule: ratelimit.Rule{Name: ratelimit.RuleRequests, Limit: number(limit2, 1, maxFieldInteger)}, Cost: number(cost2, 0, 1<<62), Used: number(used2, 0, 1<<62)},
			},
		}
		h := make(http.Header)
		d.SetHeaders(h)
		integer := func(name string) int64 {
			t.Helper()
			if len(h[name]) != 1 {
				t.Fatalf("%s: %q", name, h[name])
			}
			n, err := strconv.ParseInt(h[name][0], 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return n
		}
		limit, remaining := integer("X-RateLimit-Limit"), integer("X-RateLimit-Remaining")
		if limit < 1 || remaining < 0 || remaining > limit || !allowed && remaining != 0 {
			t.Errorf("limit %d, remaining %d, allowed %v", limit, remaining, allowed)
		}
		if reset := integer("X-RateLimit-Reset"); reset != int64(d.Window)+1 {
			t.Errorf("window %d ends at %d", d.Window, reset)
		}
		policies, states := fieldList(t, h, "RateLimit-Policy"), fieldList(t, h, "RateLimit")
		if len(policies) != len(d.Counts) || len(states) != len(d.Counts) {
			t.Fatalf("%+v, %+v", policies, states)
		}
		for i, c := range d.Counts {
			p, s := policies[i], states[i]
			if p.name != c.Rule.Name || len(p.parameters) != 2 || p.parameters["q"] != c.Rule.Limit || p.parameters["w"] != 1 {
				t.Errorf("policy %+v of %+v", p, c)
			}
			if left := max(0, c.Rule.Limit-c.Used); s.name != c.Rule.Name || len(s.parameters) != 2 || s.parameters["r"] != left || s.parameters["t"] < 1 || remaining > left {
				t.Errorf("state %+v of %+v, remaining %d", s, c, remaining)
			}
		}
	})
}

// fieldItem is a member of a structured field list, such as "name";key=1.
type fieldItem struct {
	name       string
	parameters map[string]int64
}

var (
	fieldMember    = regexp.MustCompile(`^"([ !#-\[\]-~]*)"((?:;[a-z*][a-z0-9_.*-]*=-?[0-9]{1,15})+)$`)
	fieldParameter = regexp.MustCompile(`;([^=]+)=([^;]+)`)
)

// fieldList parses a header as a list of strings with integer parameters, and accepts nothing
// else (RFC 9651, sections 3.1, 3.1.2, 3.3.1 and 3.3.3).
func fieldList(t *testing.T, h http.Header, name string) (items []fieldItem) {
	t.Helper()
	if len(h[name]) != 1 {
		t.Fatalf("%s: %q", name, h[name])
	}
	for member := range strings.SplitSeq(h[name][0], ", ") {
		m := fieldMember.FindStringSubmatch(member)
		if m == nil {
			t.Fatalf("%s: %q is not a string with integer parameters", name, member)
		}
		item := fieldItem{name: m[1], parameters: make(map[string]int64)}
		for _, p := range fieldParameter.FindAllStringSubmatch(m[2], -1) {
			n, err := strconv.ParseInt(p[2], 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			item.parameters[p[1]] = n
		}
		items = append(items, item)
	}
	return items
}
