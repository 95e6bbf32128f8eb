package httpapi

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// Default and maximum of the query parameter "limit", in records.
const (
	defaultPageLength = 50
	maxPageLength     = 200
)

// parameters holds a query and all errors found in it.
type parameters struct {
	values      url.Values
	filters     url.Values   // filters and order read so far, in canonical form
	syncedUntil *record.Time // that of the request's cursor, then of the next page's
	wrong       record.Fields
	unfit       record.Fields // parameters that are valid, but not in combination
}

// maxParameters bounds a query, because it is parsed before the request is charged.
const maxParameters = 32

var (
	errQuery         = errors.New("the query string cannot be read: percent-encode its values and separate parameters by &")
	errTooManyParams = fmt.Errorf("the query has more than %d parameters", maxParameters)
)

// readQuery returns what can be parsed, even if there is an error.
func readQuery(raw string) (url.Values, error) {
	if strings.Count(raw, "&") >= maxParameters {
		return nil, errTooManyParams
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		err = errQuery
	}
	return values, err
}

// parseQuery rejects parameters that are unknown or appear twice.
func parseQuery(r *request, known ...string) *parameters {
	p := &parameters{filters: make(url.Values)}
	if r.queryErr != nil {
		p.wrong.Check("", r.queryErr)
		return p
	}
	p.values = r.query
	advised := false
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		switch {
		case slices.Contains(known, name):
			if len(p.values[name]) > 1 {
				p.wrong.Add(name, "is given more than once")
			}
		case advised:
			p.wrong.Add(name, "is not a parameter of this route")
		case len(known) == 0:
			p.wrong.Add(name, "is not a parameter of this route, which has no parameters")
			advised = true
		default:
			p.wrong.Add(name, "is not a parameter of this route; its parameters are "+record.ShortenTo(strings.Join(known, ", "), 300))
			advised = true
		}
	}
	return p
}

// maxPage returns how many records a page may have: at most the subject's records limit, because
// a longer page would exceed it on its own. ActionUnlimited lifts that limit.
func (r *request) maxPage() int {
	limits := r.subject.Limits
	if limits.Action == ratelimit.ActionUnlimited {
		return maxPageLength
	}
	return int(min(maxPageLength, limits.Records))
}

// limit reads the query parameter "limit", a number from 1 to maxPageLength. It returns at most
// maxPage, or 0 if the parameter is invalid.
func (p *parameters) limit(maxPage int) int {
	if !p.values.Has("limit") {
		return min(defaultPageLength, maxPage)
	}
	n, err := strconv.ParseUint(p.values.Get("limit"), 10, 32)
	if err != nil || n < 1 || n > maxPageLength {
		p.wrong.Add("limit", fmt.Sprintf("must be a whole number from 1 to %d", maxPageLength))
		return 0
	}
	return min(int(n), maxPage)
}

// filter returns the value of a parameter that selects records, or "" if it is absent. If check
// rejects the value, the error goes into p.wrong.
func (p *parameters) filter(name string, check func(string) error) string {
	if !p.values.Has(name) {
		return ""
	}
	value := p.values.Get(name)
	p.wrong.Check(name, check(value))
	p.filters.Set(name, value)
	return value
}

// instant reads an RFC 3339 date-time. It returns nil if the parameter is absent or invalid.
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

// choice reports whether a parameter is otherValue. An absent parameter counts as defaultValue.
func (p *parameters) choice(name, defaultValue, otherValue string) bool {
	if !p.values.Has(name) {
		return false
	}
	switch p.values.Get(name) {
	case otherValue:
		p.filters.Set(name, otherValue)
		return true
	case defaultValue:
	default:
		p.wrong.Add(name, "must be "+defaultValue+" or "+otherValue)
	}
	return false
}

// err returns a 400 if a parameter is invalid, a 422 if parameters cannot be combined, and nil
// otherwise.
func (p *parameters) err() error {
	switch {
	case len(p.wrong) > 0:
		return badParameters(p.wrong)
	case len(p.unfit) > 0:
		return unfitParameters(p.unfit)
	}
	return nil
}

// cursor is the store's cursor with the list to which it belongs. It contains everything needed
// to continue the list, so it never expires. It is valid only for the same route, workspace, filters
// and order.
type cursor struct {
	Route       string        `json:"r"`
	Workspace   string        `json:"w"`
	Filters     string        `json:"f,omitzero"` // in canonical form
	Store       record.Cursor `json:"c"`
	SyncedUntil *record.Time  `json:"u,omitzero"` // synced_until of all later pages; nil while it follows their positions (record.SyncQuery.SyncedUntil)
}

// encode returns c as base64url-encoded JSON, the form that clients see.
func (c cursor) encode() (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// cursor decodes the cursor in the query, and returns the zero cursor if there is none. It accepts
// only what encode returns for the same route, workspace and filters, so the caller must read all
// filters first.
func (p *parameters) cursor(r *request) cursor {
	if !p.values.Has("cursor") {
		return cursor{}
	}
	text := p.values.Get("cursor")
	c, ok := decodeCursor(text)
	if !ok || c.Route != r.route.Name || c.Workspace != r.workspace || c.Filters != p.filters.Encode() {
		p.wrong = append(p.wrong, badCursor)
		return cursor{}
	}
	return c
}

var badCursor = record.FieldError{Field: "cursor", Detail: "is not a cursor of this list; use next_cursor of the previous page with the same filters, or omit it to start over"}

func decodeCursor(text string) (c cursor, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return cursor{}, false
	}
	if err := json.Unmarshal(b, &c, json.RejectUnknownMembers(true)); err != nil || c.Store == "" {
		return cursor{}, false
	}
	again, err := json.Marshal(c)
	return c, err == nil && bytes.Equal(again, b)
}
