package importfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

// Time formats besides those with the directives of strftime.
const (
	RFC3339   = "rfc3339"
	UnixTime  = "unix"    // seconds since 1970, with or without decimals
	UnixMilli = "unix_ms" // milliseconds since 1970
)

// TimeNow is the value of Description.Time with which events without a time get that of their
// import.
const TimeNow = "now"

// times parses the values of occurred_at.
type times struct {
	names   []string
	parsers []timeParser
	zone    *time.Location
}

// timeParser parses a whole text. local reports that the text has no offset, so that at is the
// local time as if it were UTC.
type timeParser func(text string) (at time.Time, local, ok bool)

// newTimes returns nil if the description has no time formats.
func newTimes(d Description) (*times, error) {
	t := &times{names: d.TimeFormats}
	local := false // whether any format can lack an offset
	for _, format := range d.TimeFormats {
		switch format {
		case RFC3339:
			t.parsers = append(t.parsers, parseRFC3339)
		case UnixTime:
			t.parsers = append(t.parsers, func(text string) (time.Time, bool, bool) { return parseUnix(text, time.Second) })
		case UnixMilli:
			t.parsers = append(t.parsers, func(text string) (time.Time, bool, bool) { return parseUnix(text, time.Millisecond) })
		default:
			f, err := newTimeFormat(format)
			if err != nil {
				return nil, fmt.Errorf("the time format %q %w", format, err)
			}
			t.parsers = append(t.parsers, f.parse)
			if f.zoneName != "" && d.TimeZone == "" {
				return nil, fmt.Errorf("the time format %q has the name of a time zone, %s, which is ambiguous; say the time zone, such as America/New_York", format, f.zoneName)
			}
			local = local || !f.hasOffset
		}
	}
	var err error
	switch {
	case d.TimeZone != "" && !local:
		return nil, errors.New("the time zone is for times without an offset, and needs a time format for them, such as %d.%m.%Y")
	case len(t.parsers) == 0:
		t = nil
		return t, nil
	}
	if t.zone, err = time.LoadLocation(d.TimeZone); err != nil || d.TimeZone == "Local" {
		return nil, fmt.Errorf("the time zone %q is unknown; use a name such as Europe/Berlin or UTC", d.TimeZone)
	}
	return t, nil
}

// convert converts the value of occurred_at to the API's form. It returns a value that is neither a
// text nor a number unchanged, for the API's parser to reject.
func (t *times) convert(value []byte) ([]byte, error) {
	text := string(value)
	number := jsontext.Value(value).Kind() == '0'
	if !number {
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return value, nil //nolint:nilerr // as documented
		}
		text = string(unquoted)
	}
	for i, parse := range t.parsers {
		if number && t.names[i] != UnixTime && t.names[i] != UnixMilli {
			continue
		}
		at, local, ok := parse(text)
		if ok && local {
			if at, ok = firstAt(at, t.zone); !ok {
				return nil, fmt.Errorf("occurred_at %q does not exist in %s, where clocks are set forward", record.Shorten(text), t.zone)
			}
		}
		if year := at.UTC().Year(); ok && (year < 0 || year > 9999) {
			return nil, fmt.Errorf("occurred_at %q is outside the years 0000 to 9999 in UTC", record.Shorten(text))
		}
		if ok {
			return quote(record.TimeOf(at).String()), nil
		}
	}
	if len(t.names) == 1 {
		return nil, fmt.Errorf("occurred_at %q does not fit the time format %s", record.Shorten(text), t.names[0])
	}
	return nil, fmt.Errorf("occurred_at %q fits none of the time formats %s", record.Shorten(text), strings.Join(t.names, ", "))
}

// firstAt returns the first time at which clocks in zone show what at shows in UTC. ok is false if
// they never do, because they are set forward.
func firstAt(at time.Time, zone *time.Location) (first time.Time, ok bool) {
	const most = 26 * time.Hour // more than any offset
	for segment := at.Add(-most).In(zone); ; {
		_, offset := segment.Zone()
		first = at.Add(-time.Duration(offset) * time.Second)
		if _, actual := first.In(zone).Zone(); actual == offset {
			return first, true
		}
		_, next := segment.ZoneBounds()
		if next.IsZero() || next.After(at.Add(most)) {
			return at, false
		}
		segment = next
	}
}

func parseRFC3339(text string) (at time.Time, local, ok bool) {
	t, err := record.ParseTime(text)
	return t.Time(), false, err == nil
}

// parseUnix reads a decimal number of units since 1970.
func parseUnix(text string, unit time.Duration) (at time.Time, local, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	const furthest = 1 << 40 // in units; beyond the year 9999 in seconds
	if err != nil || n > furthest*1000 || n < -furthest*1000 || strings.HasPrefix(whole, "+") {
		return at, false, false
	}
	if unit == time.Second {
		if n > furthest || n < -furthest {
			return at, false, false
		}
		at = time.Unix(n, 0)
	} else {
		at = time.UnixMilli(n)
	}
	parts, ok := fractionOf(fraction, unit)
	if strings.HasPrefix(whole, "-") {
		parts = -parts
	}
	return at.Add(parts), false, ok && (fraction != "" || !strings.HasSuffix(text, "."))
}

// fractionOf returns 0.digits units. Digits beyond the ninth are checked and dropped.
func fractionOf(digits string, unit time.Duration) (time.Duration, bool) {
	n, scale := int64(0), int64(unit)
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		scale /= 10
		n += int64(digits[i]-'0') * scale
	}
	return time.Duration(n), true
}
