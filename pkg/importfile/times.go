package importfile

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/ncruces/go-strftime"

	"sluice/pkg/record"
)

// timeFormat parses times in a strftime format.
type timeFormat struct {
	format string
	zone   *time.Location
	offset bool // whether the times have an offset from UTC
}

// newTimeFormat accepts a format such as %d.%m.%Y, and the name of a zone in the IANA
// database, or "" for UTC.
func newTimeFormat(format, zone string) (*timeFormat, error) {
	f := &timeFormat{format: format, offset: strings.Contains(format, "%z")}
	sample := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	read, err := strftime.Parse(format, strftime.Format(format, sample))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the time format %q cannot be read; it is a format of strftime, such as %%d.%%m.%%Y", format)
	case formatHour(format, 1) == formatHour(format, 13) && formatHour(format, 1) != formatHour(format, 2):
		return nil, fmt.Errorf("the time format %q has an hour from 1 to 12, but not the half of the day; add %%p for AM or PM, or use %%H", format)
	case !read.Equal(sample):
		return nil, fmt.Errorf("the time format %q lacks the year, month or day; it is a format of strftime, such as %%d.%%m.%%Y", format)
	case strings.Contains(format, "%Z"):
		return nil, errors.New("the time format cannot have %Z, because names of zones are ambiguous; use %z for an offset, or the time zone")
	case f.offset && zone != "":
		return nil, errors.New("the time zone is for times without an offset, but the time format has %z")
	}
	if f.zone, err = time.LoadLocation(zone); err != nil || zone == "Local" {
		return nil, fmt.Errorf("the time zone %q is unknown; use a name such as Europe/Berlin or UTC", zone)
	}
	return f, nil
}

func formatHour(format string, hour int) string {
	return strftime.Format(format, time.Date(2026, 12, 31, hour, 0, 0, 0, time.UTC))
}

// convert converts the value of occurred_at to the API's form. If the value is not a string,
// convert returns it unchanged.
func (f *timeFormat) convert(value []byte) ([]byte, error) {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return value, nil //nolint:nilerr // the API's parser reports the error
	}
	at, err := f.parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("occurred_at %q %w", record.Shorten(string(text)), err)
	}
	return quote(record.TimeOf(at).String()), nil
}

// parse returns the time that text represents. If that local time occurs twice because clocks
// are set back, parse returns the first occurrence.
func (f *timeFormat) parse(text string) (time.Time, error) {
	shown, err := strftime.Parse(f.format, text)
	if err != nil {
		err = fmt.Errorf("does not fit the time format %s", f.format)
	}
	if err != nil || f.offset {
		return shown, err
	}
	at := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), shown.Second(), shown.Nanosecond(), f.zone)
	if at.Hour() != shown.Hour() || at.Minute() != shown.Minute() {
		return at, fmt.Errorf("does not exist in %s, where clocks are set forward", f.zone)
	}
	return earliest(at), nil
}

// earliest returns the first occurrence of at's local time. When clocks are set back, some
// local times occur twice.
func earliest(at time.Time) time.Time {
	change, _ := at.ZoneBounds()
	if change.IsZero() {
		return at
	}
	_, before := change.Add(-1).Zone()
	_, after := at.Zone()
	if back := time.Duration(before-after) * time.Second; back > 0 && at.Sub(change) < back {
		return at.Add(-back)
	}
	return at
}
