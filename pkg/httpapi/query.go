package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// Page lengths of lists.
const (
	defaultPageLength = 50
	maxPageLength     = 200
)

// parameters reads a request's query and collects everything that is wrong with
// it.
type parameters struct {
	values  url.Values
	filters url.Values // the parameters read so far that choose or order records, in canonical form
	wrong   record.Fields
	unfit   record.Fields // valid, but not together
}

// parseQuery reads the query, which may hold the known parameters once each.
func parseQuery(r *request, known ...string) *parameters {
	p := &parameters{filters: make(url.Values)}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		p.wrong.Add("", "the query string cannot be read: percent-encode its values and separate parameters by &")
		return p
	}
	p.values = values
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			p.wrong.Add(record.Shorten(name), "is not a parameter of this route; its parameters are "+strings.Join(known, ", "))
		case len(given) > 1:
			p.wrong.Add(name, "is given more than once")
		}
	}
	slices.SortFunc(p.wrong, func(a, b record.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return p
}

// maxPage returns the length of the longest page for an address. A longer one
// could never pass the records rule.
func (s *service) maxPage(address string) int {
	limits := s.limiter.LimitsFor(address)
	if limits.Action == ratelimit.ActionUnlimited {
		return maxPageLength
	}
	return int(min(maxPageLength, limits.Records))
}

// limit reads the page length, from 1 to maxPageLength, and returns it or, if it
// is larger, most.
func (p *parameters) limit(most int) int {
	if !p.values.Has("limit") {
		return min(defaultPageLength, most)
	}
	n, err := strconv.ParseUint(p.values.Get("limit"), 10, 32)
	if err != nil || n < 1 || n > maxPageLength {
		p.wrong.Add("limit", fmt.Sprintf("must be a whole number from 1 to %d", maxPageLength))
		return 0
	}
	return min(int(n), most)
}

// filter reads a parameter that chooses records, "" if it is absent. check
// returns an error if the value is invalid.
func (p *parameters) filter(name string, check func(string) error) string {
	if !p.values.Has(name) {
		return ""
	}
	value := p.values.Get(name)
	p.wrong.Check(name, check(value))
	p.filters.Set(name, value)
	return value
}

// instant reads a parameter that is an RFC 3339 date-time, nil if it is absent.
func (p *parameters) instant(name string) *record.Time {
	if !p.values.Has(name) {
		return nil
	}
	value := p.values.Get(name)
	t, err := record.ParseTime(value)
	if err != nil {
		detail := "is " + err.Error()
		if strings.Contains(value, " ") {
			detail += "; write + as %2B"
		}
		p.wrong.Add(name, detail)
		return nil
	}
	p.filters.Set(name, t.String())
	return &t
}

// choice reads a parameter that is one of two values, and reports whether it is the
// second. The first is the default.
func (p *parameters) choice(name, first, second string) bool {
	if !p.values.Has(name) {
		return false
	}
	switch p.values.Get(name) {
	case second:
		p.filters.Set(name, second)
		return true
	case first:
	default:
		p.wrong.Add(name, "must be "+first+" or "+second)
	}
	return false
}

// err returns a 400 that names what is wrong, or a 422 that names what does not go
// together, or nil.
func (p *parameters) err() error {
	switch {
	case len(p.wrong) > 0:
		return badParameters(p.wrong)
	case len(p.unfit) > 0:
		return unfitParameters(p.unfit)
	}
	return nil
}

// cursor is a place in a list. It holds everything that is needed to continue, so
// it never expires. It is valid only for the list that it came from, with the
// same filters and in the same order.
type cursor struct {
	Route       string       `json:"r"`
	Workspace   string       `json:"w"`
	Filters     string       `json:"f,omitzero"` // of parameters
	ID          string       `json:"i"`          // of the last record shown
	At          *record.Time `json:"t,omitzero"` // of that, in a list in order of time
	SyncedUntil *record.Time `json:"u,omitzero"` // of the walk
}

// encode returns the cursor as clients see it: base64url of JSON.
func (c cursor) encode() (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// cursor reads the place where the page begins, or returns the zero cursor if
// none is given. timed and synced say whether this list's cursors hold At and
// SyncedUntil. Only what encode wrote for the same route, workspace and filters is
// accepted, so the filters must have been read before.
func (p *parameters) cursor(r *request, timed, synced bool) cursor {
	if !p.values.Has("cursor") {
		return cursor{}
	}
	text := p.values.Get("cursor")
	c, ok := decodeCursor(text)
	if !ok || c.Route != r.route.Name || c.Workspace != r.workspace || c.Filters != p.filters.Encode() ||
		(c.At != nil) != timed || (c.SyncedUntil != nil) != synced {
		p.wrong.Add("cursor", "is not a cursor of this list; use next_cursor of the page before with the same filters, or leave it out to start over")
		return cursor{}
	}
	return c
}

func decodeCursor(text string) (c cursor, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return cursor{}, false
	}
	if err := json.Unmarshal(b, &c, json.RejectUnknownMembers(true)); err != nil || record.CheckID(c.ID) != nil {
		return cursor{}, false
	}
	again, err := json.Marshal(c)
	return c, err == nil && bytes.Equal(again, b)
}
