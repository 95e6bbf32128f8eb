package ratelimit_test

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

var rowStart = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func block(cidr string) netip.Prefix { return netip.MustParsePrefix(cidr) }

func TestParseCIDR(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string // "" if an error is expected
		says string // part of the error
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
		got, err := ratelimit.ParseCIDR(tt.in, ratelimit.DefaultIPv6Prefix)
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
		if _, err := ratelimit.ParseCIDR("2001:db8:1::/56", tt.ipv6Prefix); (err == nil) != tt.ok {
			t.Errorf("a /56 block with the client prefix length %d: %v", tt.ipv6Prefix, err)
		}
	}
}

func TestNewRow(t *testing.T) {
	now := rowStart.Add(999 * time.Millisecond)
	for _, tt := range []struct {
		name string
		row  ratelimit.Row
		says string // part of the error; "" for none
	}{
		{"an empty row", ratelimit.Row{}, ""},
		{"the highest limits", ratelimit.Row{Records: 1_000_000, Imports: 900, Requests: 900, Note: strings.Repeat("😀", 128), ExpiresAt: now.Add(time.Second)}, ""},
		{"the action block", ratelimit.Row{Action: "block"}, ""},
		{"the action block with limits", ratelimit.Row{Action: "block", Requests: 1}, "leave them out"},
		{"an unknown action", ratelimit.Row{Action: "allow"}, "unlimited"},
		{"too many records", ratelimit.Row{Records: 1_000_001}, "records"},
		{"too many imports", ratelimit.Row{Imports: 901}, "above 900"},
		{"too many requests", ratelimit.Row{Requests: 901, Action: "unlimited"}, "above 900"},
		{"negative", ratelimit.Row{Records: -1}, "negative"},
		{"a quota of addresses", ratelimit.Row{Quotas: ratelimit.Quotas{ImportsPerDay: 1}}, "only API keys and plans have quotas"},
		{"export jobs of addresses", ratelimit.Row{ExportJobs: true}, "only API keys and plans"},
		{"a long note", ratelimit.Row{Note: strings.Repeat("n", 129)}, "note"},
		{"a note of two lines", ratelimit.Row{Note: "a\nb"}, "note"},
		{"a note that is not UTF-8", ratelimit.Row{Note: "\xff"}, "note"},
		{"expired", ratelimit.Row{ExpiresAt: rowStart}, "in the future"},
	} {
		tt.row.CIDR = block("192.0.2.0/24")
		got, err := ratelimit.NewRow(tt.row, now)
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: error %v, want an error that contains %q", tt.name, err, tt.says)
			}
			continue
		}
		if err != nil || !got.UpdatedAt.Equal(rowStart) || got.Action == "" || got.ExpiresAt.Nanosecond() != 0 {
			t.Errorf("%s: %+v, error %v", tt.name, got, err)
		}
	}
	for _, invalid := range []ratelimit.Row{
		{}, {CIDR: block("192.0.2.1/24")}, {CIDR: block("::ffff:192.0.2.0/120")},
		{KeyID: strings.Repeat("a", 65)}, {KeyID: "A"}, {KeyID: "a#b"}, {KeyID: "a", CIDR: block("192.0.2.0/24")},
		{Plan: strings.Repeat("a", 33)}, {Plan: "Pro"}, {Plan: "a b"}, {Plan: "a", KeyID: "a"}, {Plan: "a", CIDR: block("192.0.2.0/24")},
	} {
		if _, err := ratelimit.NewRow(invalid, now); err == nil {
			t.Errorf("%+v: no error", invalid)
		}
	}
	for _, tt := range []struct {
		quotas ratelimit.Quotas
		action ratelimit.Action
		valid  bool
	}{
		{ratelimit.Quotas{RecordsPerDay: 1, RecordsPerMonth: ratelimit.MaxQuota, ImportsPerDay: 1, ImportsPerMonth: 1}, "observe", true},
		{ratelimit.Quotas{RecordsPerMonth: ratelimit.MaxQuota + 1}, "limit", false},
		{ratelimit.Quotas{ImportsPerDay: -1}, "limit", false},
		{ratelimit.Quotas{ImportsPerDay: 1}, "block", false},
	} {
		if _, err := ratelimit.NewRow(ratelimit.Row{KeyID: strings.Repeat("a", 64), Quotas: tt.quotas, Action: tt.action}, now); (err == nil) != tt.valid {
			t.Errorf("%+v with the action %s: %v", tt.quotas, tt.action, err)
		}
	}
}

func TestParseRowName(t *testing.T) {
	for in, want := range map[string]string{
		"key:7m3kq2xw9abc": "key:7m3kq2xw9abc", "plan:pro-1": "plan:pro-1", "plan:": "", "plan:A": "", "192.0.2.7": "192.0.2.7/32", "2001:db8::/32": "2001:db8::/32",
		"key:": "", "key:A": "", "7m3kq2xw9abc": "", "address:192.0.2.7": "", "": "",
	} {
		r, err := ratelimit.ParseRowName(in, ratelimit.DefaultIPv6Prefix)
		if (err == nil) != (want != "") || err == nil && r.Name() != want {
			t.Errorf("%q: %s, error %v; want %q", in, r.Name(), err, want)
		}
	}
}

func address(t *testing.T, s string) netip.Prefix {
	t.Helper()
	a, err := ratelimit.ParseAddress(s, ratelimit.DefaultIPv6Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A row that blocks the address takes precedence over a row of the key, each limit of that over the
// key's plan, and both over any other row of the address.
func TestWhoIsCounted(t *testing.T) {
	soon := rowStart.Add(time.Minute)
	table := newTable(t,
		ratelimit.Row{KeyID: "gold", Action: "limit", Records: 1000},
		ratelimit.Row{KeyID: "blocked", Action: "block"},
		ratelimit.Row{Plan: "pro", Action: "limit", Records: 500, Imports: 50},
		ratelimit.Row{KeyID: "trial", Action: "unlimited", ExpiresAt: soon},
		ratelimit.Row{CIDR: block("192.0.2.0/24"), Action: "observe", Imports: 2},
		ratelimit.Row{CIDR: block("198.51.100.0/24"), Action: "block", ExpiresAt: soon},
	)
	for _, tt := range []struct {
		address, key string // key:plan if the key has a plan
		now          time.Time
		want         string // identity that is counted
		limits       ratelimit.Limits
	}{
		{"203.0.113.1", "any:pro", rowStart, "key:any", ratelimit.Limits{Records: 500, Imports: 50}},
		{"192.0.2.1", "any:pro", rowStart, "key:any", ratelimit.Limits{Records: 500, Imports: 50}},
		{"192.0.2.1", "gold:pro", rowStart, "key:gold", ratelimit.Limits{Records: 1000, Imports: 50}},
		{"192.0.2.1", "trial:pro", rowStart, "key:trial", ratelimit.Limits{Records: 500, Imports: 50, Action: "unlimited"}},
		{"192.0.2.1", "trial:pro", soon, "key:trial", ratelimit.Limits{Records: 500, Imports: 50}},
		{"192.0.2.1", "blocked:pro", rowStart, "key:blocked", ratelimit.Limits{Records: 500, Imports: 50, Action: "block"}},
		{"198.51.100.1", "any:pro", rowStart, "198.51.100.1", ratelimit.Limits{Action: "block"}},
		{"192.0.2.1", "any:gone", rowStart, "key:any", ratelimit.Limits{}},
		{"192.0.2.1", "gold:gone", rowStart, "key:gold", ratelimit.Limits{Records: 1000}},
		{"", "any:pro", rowStart, "key:any", ratelimit.Limits{Records: 500, Imports: 50}},

		{"203.0.113.1", "", rowStart, "203.0.113.1", ratelimit.Limits{}},
		{"203.0.113.1", "other", rowStart, "203.0.113.1", ratelimit.Limits{}},
		{"203.0.113.1", "gold", rowStart, "key:gold", ratelimit.Limits{Records: 1000}},
		{"192.0.2.1", "", rowStart, "192.0.2.1", ratelimit.Limits{Action: "observe", Imports: 2}},
		{"192.0.2.1", "gold", rowStart, "key:gold", ratelimit.Limits{Records: 1000}},
		{"2001:db8::1", "gold", rowStart, "key:gold", ratelimit.Limits{Records: 1000}},
		{"2001:db8::1", "other", rowStart, "2001:db8::/64", ratelimit.Limits{}},
		{"192.0.2.1", "blocked", rowStart, "key:blocked", ratelimit.Limits{Action: "block"}},
		{"198.51.100.1", "gold", rowStart, "198.51.100.1", ratelimit.Limits{Action: "block"}},
		{"198.51.100.1", "gold", soon, "key:gold", ratelimit.Limits{Records: 1000}},
		{"192.0.2.1", "trial", soon.Add(-1), "key:trial", ratelimit.Limits{Action: "unlimited"}},
		{"192.0.2.1", "trial", soon, "192.0.2.1", ratelimit.Limits{Action: "observe", Imports: 2}},
		{"", "gold", rowStart, "key:gold", ratelimit.Limits{Records: 1000}},
		{"", "other", rowStart, "key:other", ratelimit.Limits{}},
	} {
		l := open(t, memory.NewCounters(), ratelimit.Config{Limits: ratelimit.Limits{Records: 7}, Now: (&clock{tt.now}).now})
		var a netip.Prefix
		if tt.address != "" {
			a = address(t, tt.address)
		}
		c := ratelimit.Caller{Address: a}
		c.KeyID, c.Plan, _ = strings.Cut(tt.key, ":")
		want := ratelimit.Subject{Identity: tt.want, Limits: tt.limits.Or(ratelimit.Limits{Records: 7, Imports: 200, Requests: 200, Action: "limit"})}
		if c.Plan == "gone" {
			want.MissingPlan = c.Plan
		}
		if got := l.Subject(table, c); got != want || got.ByKey() != strings.HasPrefix(tt.want, "key:") {
			t.Errorf("%s with the key %q: %+v, want %+v", tt.address, tt.key, got, want)
		}
	}
	l := open(t, memory.NewCounters(), ratelimit.Config{})
	if got := l.Subject(nil, ratelimit.Caller{Address: address(t, "192.0.2.1"), KeyID: "gold"}); got.Identity != "192.0.2.1" {
		t.Errorf("without rows, %s is counted", got.Identity)
	}
	unread := ratelimit.Caller{Address: address(t, "192.0.2.1"), KeyID: "any", Plan: "pro"}
	if got := l.Subject(nil, unread); got.Identity != "key:any" || got.MissingPlan != "" {
		t.Errorf("without rows, a key with a plan: %+v", got)
	}
}

func newTable(t *testing.T, rows ...ratelimit.Row) *ratelimit.Rows {
	t.Helper()
	table, err := ratelimit.NewRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestRowsOfIPv6Blocks(t *testing.T) {
	table := newTable(t,
		ratelimit.Row{CIDR: block("0.0.0.0/0"), Action: "observe", Records: 1},
		ratelimit.Row{CIDR: block("2001:db8::/32"), Action: "limit", Requests: 4},
		ratelimit.Row{CIDR: block("2001:db8:0:1::/64"), Action: "block"},
		ratelimit.Row{CIDR: block("2001:db8:0:2::/65"), Action: "block"}, // longer than the client prefix of 64 bits
	)
	for client, want := range map[string]string{
		"2001:db8::1": "2001:db8::/32", "2001:db8:0:1::1": "2001:db8:0:1::/64", "2001:db8:0:2::1": "2001:db8::/32", "2001:db9::1": "",
	} {
		m := table.Find(ratelimit.Caller{Address: address(t, client)}, rowStart)
		if len(m.Rows) > 1 || (len(m.Rows) == 1) != (want != "") || want != "" && m.Rows[0].CIDR.String() != want {
			t.Errorf("%s: %+v; want %q", client, m, want)
		}
	}
	if _, err := ratelimit.NewRows([]ratelimit.Row{{CIDR: block("10.0.0.0/8"), Action: "allow"}}); err == nil {
		t.Error("an invalid row: no error")
	}
}

func TestFindAgreesWithASearchOfAllRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	randomAddress := func() netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(4)), byte(random.IntN(256))})
	}
	for range 50 {
		var rows []ratelimit.Row
		taken := make(map[netip.Prefix]bool)
		for range 60 {
			cidr, _ := randomAddress().Prefix(random.IntN(33))
			if !taken[cidr] {
				taken[cidr] = true
				rows = append(rows, ratelimit.Row{CIDR: cidr, Action: "limit", Records: 1, ExpiresAt: rowStart.Add(time.Duration(random.IntN(3)) * time.Second)})
			}
		}
		table := newTable(t, rows...)
		for range 200 {
			a, now := randomAddress(), rowStart.Add(time.Duration(random.IntN(3))*time.Second)
			var want ratelimit.Row
			for _, r := range rows {
				if r.CIDR.Contains(a) && !r.Expired(now) && (want.Action == "" || r.CIDR.Bits() > want.CIDR.Bits()) {
					want = r
				}
			}
			var got ratelimit.Row
			if m := table.Find(ratelimit.Caller{Address: netip.PrefixFrom(a, 32)}, now); len(m.Rows) > 0 {
				got = m.Rows[0]
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %+v, want %+v", a, got, want)
			}
		}
	}
}
