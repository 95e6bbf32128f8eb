package importfile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeFormat reads times in the syntax of strftime, as C and Python do.
type timeFormat struct {
	text       *regexp.Regexp
	directives []rune         // of each group
	offset     *time.Duration // that the format has as a literal, such as Z or +01; nil if none
	hasOffset  bool           // whether every text has an offset
	zoneName   string         // that the format has as a literal, such as EST
}

const (
	days   = `mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?`
	months = `jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?`
)

// directives maps each directive to what it matches. A number next to another one must have all
// its digits; elsewhere, leading zeros may be missing.
var directives = map[rune]struct{ text, exact string }{
	'Y': {`\d{4}`, ``},
	'y': {`\d\d`, ``},
	'm': {`1[0-2]|0?[1-9]`, `1[0-2]|0[1-9]`},
	'd': {`3[01]|[12]\d|0?[1-9]`, `3[01]|[12]\d|0[1-9]`},
	'e': {`3[01]|[12]\d|[0 ]?[1-9]`, `3[01]|[12]\d|[0 ][1-9]`},
	'j': {`3[0-6]\d|[12]\d\d|0?[1-9]\d|0{0,2}[1-9]`, `3[0-6]\d|[12]\d\d|0[1-9]\d|00[1-9]`},
	'H': {`2[0-3]|[01]?\d`, `2[0-3]|[01]\d`},
	'I': {`1[0-2]|0?[1-9]`, `1[0-2]|0[1-9]`},
	'M': {`[0-5]?\d`, `[0-5]\d`},
	'S': {`[0-5]?\d(?:[.,]\d+)?`, `[0-5]\d(?:[.,]\d+)?`},
	'f': {`\d{1,9}`, ``},
	'b': {months, ``}, 'B': {months, ``},
	'a': {days, ``}, 'A': {days, ``},
	'p': {`[ap]m`, ``},
	'z': {`Z|[+-]\d\d(?::?[0-5]\d(?::?[0-5]\d)?)?`, ``},
}

var shorthands = strings.NewReplacer("%%", "%%", "%F", "%Y-%m-%d", "%D", "%m/%d/%y", "%T", "%H:%M:%S", "%R", "%H:%M", "%r", "%I:%M:%S %p",
	"%h", "%b", "%L", "%f", "%:z", "%z", "%n", " ", "%t", " ", "%-", "%")

// literalOffset finds an offset, or else the name of a zone, that is text in a format.
var literalOffset = regexp.MustCompile(`%(?:[HIMSfp](?:[.,]\d+)? ?((?:UTC|GMT)?[+-]\d\d(?::?\d\d)?|Z|UTC|GMT)` +
	`|[A-Za-z] ?([+-]\d\d:\d\d|\+\d\d(?:\d\d)?|Z|UTC|GMT)` +
	`|[HIMSfp] ?\(?([A-Z]{3,5}))(?:[^0-9A-Za-z%+-]|$)`)

var (
	tokens = regexp.MustCompile(`(?s)%.|[^%]+|%`)
	spaces = regexp.MustCompile(`\s+`)
)

// newTimeFormat returns an error that follows the format in a sentence.
func newTimeFormat(format string) (*timeFormat, error) {
	f := new(timeFormat)
	format = shorthands.Replace(format)
	parts := tokens.FindAllString(format, -1)
	isNumber := func(i int) bool {
		return i >= 0 && i < len(parts) && len(parts[i]) == 2 && strings.Contains("%Y%y%m%d%e%j%H%I%M%S%f", parts[i])
	}
	pattern := "(?i)^"
	for i, part := range parts {
		directive := rune(part[len(part)-1])
		known, ok := directives[directive]
		switch {
		case !strings.HasPrefix(part, "%") || part == "%%":
			pattern += spaces.ReplaceAllLiteralString(regexp.QuoteMeta(strings.TrimPrefix(part, "%")), `\s+`)
			continue
		case part == "%Z":
			return nil, errors.New("cannot have %Z, because names of zones are ambiguous; use %z for an offset, or the time zone")
		case len(part) < 2 || !ok:
			return nil, errors.New("cannot be read; " + formatExample)
		}
		if known.exact != "" && (isNumber(i-1) || isNumber(i+1)) {
			known.text = known.exact
		}
		pattern += "(" + known.text + ")"
		f.directives = append(f.directives, directive)
	}
	f.text = regexp.MustCompile(pattern + "$")
	return f, f.check(format)
}

const formatExample = "it is a format of strftime, such as %d.%m.%Y"

// check also finds a literal offset.
func (f *timeFormat) check(format string) error {
	has := func(anyOf string) bool { return strings.ContainsAny(string(f.directives), anyOf) }
	switch {
	case !has("Yy") || !(has("mbB") && has("de") || has("j")):
		return errors.New("lacks the year, month or day; " + formatExample)
	case has("I") != has("p"):
		return errors.New("has an hour from 1 to 12 or the half of the day, but not both; use %I with %p, or %H")
	}
	f.hasOffset = has("z")
	literal := literalOffset.FindStringSubmatch(format)
	switch {
	case literal == nil || f.hasOffset:
		return nil
	case literal[3] != "":
		f.zoneName = literal[3]
		return nil
	}
	offset, ok := parseOffset(literal[1] + literal[2])
	if !ok {
		return fmt.Errorf("has an offset that does not exist, %s", literal[1]+literal[2])
	}
	f.offset, f.hasOffset = &offset, true
	return nil
}

// parseOffset accepts Z, UTC, GMT, +01, +0100, +01:00, +01:00:30 and GMT+01:00.
func parseOffset(text string) (time.Duration, bool) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "UTC"), "GMT")
	if text == "" || strings.EqualFold(text, "Z") {
		return 0, true
	}
	digits := strings.ReplaceAll(text[1:], ":", "") + "0000"
	n, err := strconv.Atoi(digits[:6])
	hour, minute, second := n/10000, n/100%100, n%100
	offset := time.Duration(hour*3600+minute*60+second) * time.Second
	if text[0] == '-' {
		offset = -offset
	}
	return offset, err == nil && hour < 24 && minute < 60
}

// parse is a timeParser.
func (f *timeFormat) parse(text string) (at time.Time, local, ok bool) {
	groups := f.text.FindStringSubmatch(text)
	if groups == nil {
		return at, false, false
	}
	p := timeParts{month: 1, day: 1, local: f.offset == nil}
	if !p.local {
		p.offset = *f.offset
	}
	for i, directive := range f.directives {
		if !p.set(directive, groups[i+1]) {
			return at, false, false
		}
	}
	at, ok = p.time()
	return at, p.local, ok
}

// timeParts is what a text says about a time.
type timeParts struct {
	year, month, day, hour, minute, second int

	yearDay          int    // from 1; 0 for none
	half             string // of the day: "am" or "pm"; empty if hour counts to 23
	fraction, offset time.Duration
	local            bool // whether there is no offset
}

// set reports whether the value of a directive can exist.
func (p *timeParts) set(directive rune, value string) (ok bool) {
	n, _ := strconv.Atoi(strings.TrimLeft(value, " ")) // what is no number is not used as one
	ok = true
	switch directive {
	case 'Y':
		p.year = n
	case 'y':
		if p.year = 1900 + n; n < 69 { // as in POSIX
			p.year += 100
		}
	case 'm':
		p.month = n
	case 'b', 'B':
		p.month = 1 + strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", strings.ToLower(value[:3]))/3
	case 'd', 'e':
		p.day = n
	case 'j':
		p.yearDay = n
	case 'H', 'I':
		p.hour = n
	case 'M':
		p.minute = n
	case 'S':
		whole, decimals, _ := strings.Cut(strings.Replace(value, ",", ".", 1), ".")
		p.second, _ = strconv.Atoi(whole)
		p.fraction, ok = fractionOf(decimals, time.Second)
	case 'f':
		p.fraction, ok = fractionOf(value, time.Second)
	case 'p':
		p.half = strings.ToLower(value)
	case 'z':
		p.offset, ok = parseOffset(value)
		p.local = false
	}
	return ok
}

// time reports whether the day exists. A local time is as if it were UTC.
func (p *timeParts) time() (at time.Time, ok bool) {
	month, day, hour := p.month, p.day, p.hour
	if p.half != "" {
		hour %= 12
	}
	if p.half == "pm" {
		hour += 12
	}
	if p.yearDay > 0 {
		month, day = 1, p.yearDay
	}
	at = time.Date(p.year, time.Month(month), day, hour, p.minute, p.second, 0, time.UTC)
	ok = at.Year() == p.year && (p.yearDay > 0 || at.Day() == day)
	return at.Add(p.fraction - p.offset), ok
}
