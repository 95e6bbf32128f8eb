package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/pkg/record"
)

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"": false, ".": false, "..": false, "...": true, ".a": true, "a": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
		"A-Z.a_z:09": true, "a b": false, "a#b": false, "a/b": false, "é": false, "a\x00": false, "%41": false,
	} {
		if got := record.CheckID(id) == nil; got != ok {
			t.Errorf("%q: ok %v, want %v", id, got, ok)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"": false, "a": true, strings.Repeat("é", 128): true, strings.Repeat("é", 129): false, "a b/c": true, "\xff": false,
	} {
		if got := record.CheckName(name) == nil; got != ok {
			t.Errorf("%q: ok %v, want %v", name, got, ok)
		}
	}
}

func TestParseTime(t *testing.T) {
	for in, want := range map[string]string{ // want is "" if an error is expected
		"2026-01-02T15:04:05Z":                "2026-01-02T15:04:05.000Z",
		"2026-01-02T15:04:05.123456789Z":      "2026-01-02T15:04:05.123Z",
		"2026-01-02T15:04:05.999999999+02:00": "2026-01-02T13:04:05.999Z",
		"1969-12-31T23:59:59.9999Z":           "1969-12-31T23:59:59.999Z",
		"0000-01-01T00:00:00Z":                "0000-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999Z":            "9999-12-31T23:59:59.999Z",
		"0000-01-01T00:00:00+00:01":           "",
		"9999-12-31T23:59:59-00:01":           "",
		"10000-01-01T00:00:00Z":               "",
		"2026-02-30T00:00:00Z":                "",
		"2026-01-02T15:04:05":                 "",
		"2026-01-02T5:04:05Z":                 "",
		"2026-01-02T15:04:05,1Z":              "",
		"2026-01-02T15:04:05+24:00":           "",
		"2026-01-02T15:04:05+23:60":           "",
		"2026-01-02T15:04:05+23:59":           "2026-01-01T15:05:05.000Z",
		"2026-01-02T15:04:05-00:00":           "2026-01-02T15:04:05.000Z",
		"2026-01-02 15:04:05Z":                "",
		"2026-01-02t15:04:05z":                "",
		"2026-01-02T15:04Z":                   "",
		"2026-01-02T15:04:60Z":                "",
		"2026-01-02T24:00:00Z":                "",
		"2026-01-02T15:04:05.Z":               "",
		"2026-01-02T15:04:05+0200":            "",
		"+10000-01-01T00:00:00Z":              "",
		"-0001-01-01T00:00:00Z":               "",
		"2026-01-02":                          "",
		"":                                    "",
	} {
		got, err := record.ParseTime(in)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
	}
}

func TestTextsOfTimesSortInOrderOfTime(t *testing.T) {
	earlier := record.TimeOf(time.Date(999, 12, 31, 0, 0, 0, 0, time.UTC))
	later := record.TimeOf(time.Date(2026, 1, 2, 15, 4, 5, 1e6, time.UTC))
	if earlier.Compare(later) != -1 || later.Compare(earlier) != 1 || later.Compare(later) != 0 || earlier.String() >= later.String() {
		t.Errorf("%s and %s", earlier, later)
	}
}

func TestSameAttributes(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`{}`, `{}`, true},
		{`{"a":1,"b":[1,2]}`, `{"b":[1,2],"a":1}`, true},
		{`{"a":"A"}`, `{"a":"\u0041"}`, true},
		{`{"a":"\u0041\u0041","b":1}`, `{"b":1,"a":"AA"}`, true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":null}`, `{}`, false},
	} {
		if got := record.SameAttributes(record.Attributes(tt.a), record.Attributes(tt.b)); got != tt.same {
			t.Errorf("%s and %s: same %v", tt.a, tt.b, got)
		}
	}
}

func TestALargeRecordIsComparedWithASmallOneByItsLength(t *testing.T) {
	small, large := record.Attributes(`{"a":1}`), record.Attributes(`{"a":"`+strings.Repeat("a", 1<<18)+`"}`)
	if n := testing.AllocsPerRun(10, func() { record.SameAttributes(small, large); record.SameAttributes(large, small) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestPageFull(t *testing.T) {
	for _, tt := range []struct {
		count, bytes, size int
		full               bool
	}{
		{0, 0, 10_000_000, false},
		{1, record.MaxPageBytes - 1, 1, false},
		{1, record.MaxPageBytes, 1, true},
	} {
		if got := record.PageFull(tt.count, tt.bytes, tt.size); got != tt.full {
			t.Errorf("%+v: full %v", tt, got)
		}
	}
}

func TestTimeText(t *testing.T) {
	for at := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 10000; at = at.Add(1234567*time.Minute + 98765432*time.Microsecond) {
		if got, want := record.TimeOf(at).String(), at.Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	for at, want := range map[time.Time]string{first: "0000-01-01T00:00:00.000Z", last: "9999-12-31T23:59:59.999Z"} {
		if got, err := record.TimeOf(at).MarshalText(); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestCodeOf(t *testing.T) {
	unavailable := record.UnavailableError("get", errors.New("timeout"))
	for _, tt := range []struct {
		err  error
		want record.Code
	}{
		{nil, 0},
		{errors.New("other"), 0},
		{unavailable, record.Unavailable},
		{fmt.Errorf("list: %w", record.NotFoundError("event", "a")), record.NotFound},
		{errors.Join(errors.New("other"), unavailable), record.Unavailable},
	} {
		if got := record.CodeOf(tt.err); got != tt.want {
			t.Errorf("%v: kind %d, want %d", tt.err, got, tt.want)
		}
	}
}
