package override_test

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pkg/override"
	"sluice/pkg/ratelimit"
)

var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func block(cidr string) netip.Prefix { return netip.MustParsePrefix(cidr) }

func TestParseCIDR(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string // "" if an error is expected
		says string // part of the expected error
	}{
		{"192.0.2.0/24", "192.0.2.0/24", ""},
		{"0.0.0.0/0", "0.0.0.0/0", ""},
		{"192.0.2.7", "192.0.2.7/32", ""},
		{"192.0.2.7/32", "192.0.2.7/32", ""},
		{"192.0.2.7/24", "", "use 192.0.2.0/24"},
		{"192.0.2.7/33", "", "not a CIDR block"},
		{"::ffff:192.0.2.7", "192.0.2.7/32", ""},
		{"::ffff:192.0.2.0/120", "192.0.2.0/24", ""},
		{"::ffff:192.0.2.7/120", "", "use 192.0.2.0/24"},
		{"::ffff:0:0/90", "", "write IPv4 blocks like 192.0.2.0/24"},
		{"::/0", "::/0", ""},
		{"2001:DB8::/32", "2001:db8::/32", ""},
		{"2001:db8:1:2::/64", "2001:db8:1:2::/64", ""},
		{"2001:db8:1:2::/65", "", "use 2001:db8:1:2::/64"},
		{"2001:db8:1:2:3::1", "", "use 2001:db8:1:2::/64"},
		{"2001:db8:1:2::1/64", "", "use 2001:db8:1:2::/64"},
		{"2001:db8:1::/32", "", "use 2001:db8::/32"},
		{"fe80::1%eth0", "", "use fe80::/64"},
		{"", "", "not a CIDR block"},
		{"example.com", "", "not a CIDR block"},
		{"192.0.2.0/24 ", "", "not a CIDR block"},
		{"192.0.2.0-192.0.2.9", "", "not a CIDR block"},
	} {
		got, err := override.ParseCIDR(tt.in, ratelimit.DefaultIPv6Prefix)
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q: %v, error %v, want an error that contains %q", tt.in, got, err, tt.says)
			}
		} else if err != nil || got.String() != tt.want {
			t.Errorf("%q: %v, error %v; want %s", tt.in, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		ipv6Prefix int
		ok         bool
	}{{128, true}, {57, true}, {56, true}, {55, false}} {
		if _, err := override.ParseCIDR("2001:db8:1::/56", tt.ipv6Prefix); (err == nil) != tt.ok {
			t.Errorf("a /56 block with the client prefix length %d: %v", tt.ipv6Prefix, err)
		}
	}
}

func TestNew(t *testing.T) {
	now := start.Add(999 * time.Millisecond)
	for _, tt := range []struct {
		name string
		row  override.Row
		says string // part of the expected error; "" if none is expected
	}{
		{"an empty row", override.Row{}, ""},
		{"the highest limits", override.Row{Records: 1_000_000, Imports: 900, Requests: 900, Note: strings.Repeat("😀", 128), ExpiresAt: now.Add(time.Second)}, ""},
		{"the action block", override.Row{Action: "block"}, ""},
		{"the action block with limits", override.Row{Action: "block", Requests: 1}, "leave them out"},
		{"an unknown action", override.Row{Action: "allow"}, "unlimited"},
		{"too many records", override.Row{Records: 1_000_001}, "records"},
		{"too many imports", override.Row{Imports: 901}, "above 900"},
		{"too many requests", override.Row{Requests: 901, Action: "unlimited"}, "above 900"},
		{"negative", override.Row{Records: -1}, "negative"},
		{"a long note", override.Row{Note: strings.Repeat("n", 129)}, "note"},
		{"a note of two lines", override.Row{Note: "a\nb"}, "note"},
		{"a note that is not UTF-8", override.Row{Note: "\xff"}, "note"},
		{"expired", override.Row{ExpiresAt: start}, "in the future"},
	} {
		tt.row.CIDR = block("192.0.2.0/24")
		got, err := override.New(tt.row, now)
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: error %v, want an error that contains %q", tt.name, err, tt.says)
			}
			continue
		}
		if err != nil || !got.UpdatedAt.Equal(start) || got.Action == "" || got.ExpiresAt.Nanosecond() != 0 {
			t.Errorf("%s: %+v, error %v", tt.name, got, err)
		}
	}
	for _, invalid := range []netip.Prefix{{}, netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("::ffff:192.0.2.0/120")} {
		if _, err := override.New(override.Row{CIDR: invalid}, now); err == nil {
			t.Errorf("%v: no error", invalid)
		}
	}
}

func newTable(t *testing.T, rows ...override.Row) *override.Table {
	t.Helper()
	table, err := override.NewTable(rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestOnlyTheLongestPrefixApplies(t *testing.T) {
	table := newTable(t,
		override.Row{CIDR: block("0.0.0.0/0"), Action: "observe", Records: 1},
		override.Row{CIDR: block("192.0.2.0/24"), Action: "limit", Imports: 2},
		override.Row{CIDR: block("192.0.2.128/25"), Action: "block", ExpiresAt: start.Add(time.Minute)},
		override.Row{CIDR: block("192.0.2.129/32"), Action: "unlimited"},
		override.Row{CIDR: block("2001:db8::/32"), Action: "limit", Requests: 4},
		override.Row{CIDR: block("2001:db8:0:1::/64"), Action: "block"},
		override.Row{CIDR: block("2001:db8:0:2::/65"), Action: "block"}, // longer than the client prefix of 64 bits
	)
	for _, tt := range []struct {
		address string
		now     time.Time
		want    string // block of the row, "" if no row applies
	}{
		{"198.51.100.1", start, "0.0.0.0/0"},
		{"192.0.2.1", start, "192.0.2.0/24"},
		{"192.0.2.127", start, "192.0.2.0/24"},
		{"192.0.2.128", start, "192.0.2.128/25"},
		{"192.0.2.128", start.Add(time.Minute - 1), "192.0.2.128/25"},
		{"192.0.2.128", start.Add(time.Minute), "192.0.2.0/24"}, // expired
		{"192.0.2.129", start, "192.0.2.129/32"},
		{"2001:db8::/64", start, "2001:db8::/32"},
		{"2001:db8:0:1::/64", start, "2001:db8:0:1::/64"},
		{"2001:db8:0:2::/64", start, "2001:db8::/32"},
		{"2001:db9::/64", start, ""},
		{"nobody", start, ""},
		{"", start, ""},
	} {
		r, ok := table.Find(tt.address, tt.now)
		if ok != (tt.want != "") || ok && r.CIDR.String() != tt.want {
			t.Errorf("%s: %v, %v; want %q", tt.address, r.CIDR, ok, tt.want)
		}
	}
	if r, ok := (*override.Table)(nil).Find("192.0.2.1", start); ok {
		t.Errorf("a nil Table returned %v", r)
	}
	if _, err := override.NewTable([]override.Row{{CIDR: block("10.0.0.0/8"), Action: "allow"}}); err == nil {
		t.Error("an invalid row: no error")
	}
}

func TestFindAgreesWithASearchOfAllRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(4)), byte(random.IntN(256))})
	}
	for range 50 {
		var rows []override.Row
		taken := make(map[netip.Prefix]bool)
		for range 60 {
			cidr, _ := address().Prefix(random.IntN(33))
			if !taken[cidr] {
				taken[cidr] = true
				rows = append(rows, override.Row{CIDR: cidr, Action: "limit", Records: 1, ExpiresAt: start.Add(time.Duration(random.IntN(3)) * time.Second)})
			}
		}
		table := newTable(t, rows...)
		for range 200 {
			a, now := address(), start.Add(time.Duration(random.IntN(3))*time.Second)
			var want override.Row
			for _, r := range rows {
				if r.CIDR.Contains(a) && !r.Expired(now) && (want.Action == "" || r.CIDR.Bits() > want.CIDR.Bits()) {
					want = r
				}
			}
			if got, _ := table.Find(a.String(), now); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %+v, want %+v", a, got, want)
			}
		}
	}
}
