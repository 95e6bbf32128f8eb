package usageview

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/pkg/client"
)

// used returns 60 seconds of usage, the last of which have these numbers of records.
func used(records ...int64) client.Usage {
	u := client.Usage{Counted: "address:192.0.2.1", Limit: 20, Limits: client.UsageLimits{Records: 200, Imports: 20, Requests: 100}}
	for i := range int64(60) {
		u.Seconds = append(u.Seconds, client.UsageSecond{Second: 1_800_000_000 + i, Requests: map[string]int64{}})
	}
	for i, n := range records {
		s := &u.Seconds[60-len(records)+i]
		s.Records, s.Requests["list-entity"] = n, 1
	}
	return u
}

func TestBarsShowWhatWasUsed(t *testing.T) {
	t.Parallel()
	wide := [3]string{" 60 now, at most 200 of 200, 1 full", " 0 now, at most 0 of 20, 0 full", " 1 now, at most 1 of 100, 0 full"}
	thin := [3]string{" 60 of 200", " 0 of 20", " 1 of 100"}
	for _, tt := range []struct {
		width   int
		seconds int
		numbers [3]string
	}{
		{200, 60, wide}, {119, 60, wide}, {118, 59, wide}, {99, 40, wide}, {98, 60, thin}, {60, 27, thin},
	} {
		got := bars(used(0, 1, 199, 200, 60), tt.width)
		pad := strings.Repeat(" ", tt.seconds-5)
		want := []string{
			fmt.Sprintf("address 192.0.2.1, the last %d seconds", tt.seconds),
			"",
			"records              " + pad + " ▁▇█▃" + tt.numbers[0],
			"imports              " + pad + "     " + tt.numbers[1],
			"requests list-entity " + pad + "▁▁▁▁▁" + tt.numbers[2],
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("width %d: got\n%s\nwant\n%s", tt.width, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	sums := used(1)
	sums.Day, sums.Month = &client.UsagePeriod{Start: 1_799_971_200, Records: 12, Imports: 3}, &client.UsagePeriod{Start: 1_798_761_600, Records: 70, Limits: client.UsageQuotas{Records: 1000}}
	if got := bars(sums, 100); strings.Join(got[len(got)-2:], "\n") != "day                  12 records, 3 imports since 2027-01-15\nmonth                70 of 1000 records, 0 imports since 2027-01-01" {
		t.Errorf("%q", got)
	}
	if got := bars(client.Usage{Counted: "key:7m3kq2xw9abc"}, 100); len(got) != 4 {
		t.Errorf("of nothing: %q", got)
	}
}

// The lines fit no matter how long the names and numbers are.
func TestBarsFitEveryWidth(t *testing.T) {
	t.Parallel()
	u := used(1_000_000)
	u.Counted, u.Action, u.Limits.Records = "address:2001:db8:1111:2222::/64", "unlimited", 10_000_000
	u.Seconds[59].Requests["create-export-job"] = 1
	for width := range 150 {
		for _, line := range bars(u, width) {
			if n := utf8.RuneCountInString(line); n > max(width-1, 0) {
				t.Fatalf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
}

// The numbers are just below and at the points where the bar's height changes.
func TestTheHeightOfABar(t *testing.T) {
	t.Parallel()
	for used, want := range map[int64]rune{-1: ' ', 0: ' ', 1: '▁', 28: '▁', 29: '▂', 171: '▆', 172: '▇', 199: '▇', 200: '█', 201: '█'} {
		if got := bar(used, 200); got != want {
			t.Errorf("%d of 200: %c, want %c", used, got, want)
		}
	}
}

// The service keeps only the last few seconds of a key.
func TestTheLastMinuteIsCollected(t *testing.T) {
	t.Parallel()
	var m minute
	var got []client.UsageSecond
	for now := int64(1000); now < 1100; now += 2 {
		got = m.add([]client.UsageSecond{{Second: now - 1, Records: now - 1}, {Second: now, Records: 1}})
	}
	if len(got) != 60 || len(m.known) > 60 {
		t.Fatalf("%d seconds of %d", len(got), len(m.known))
	}
	for i, s := range got {
		second := 1098 - 59 + int64(i)
		want := second // of an odd second, the last response shows all of it
		if second%2 == 0 {
			want = 1
		}
		if s.Second != second || s.Records != want {
			t.Errorf("entry %d is %+v", i, s)
		}
	}
	if got = m.add([]client.UsageSecond{{Second: 500}}); got[59].Second != 500 || got[58].Records != 0 || len(m.known) != 1 {
		t.Errorf("after the clock was set back: %+v", got)
	}
}
