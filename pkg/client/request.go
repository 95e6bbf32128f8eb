package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"sluice/pkg/api"
	"sluice/pkg/record"
)

// Page sizes, in records.
const (
	defaultPage = 50  // for queries without a Limit, while the rate limit is unknown
	maxPage     = 200 // maximum that the service returns
)

// Page is one page of a list. For the next page, repeat the query with NextCursor as its
// Cursor. NextCursor is nil on the last page.
type Page[T any] = api.List[T]

// OpenAPI returns the service's openapi.yaml.
func (c *Client) OpenAPI(ctx context.Context) (document []byte, err error) {
	_, err = c.do(ctx, call{route: route{"openapi", http.MethodGet, classGeneral}, path: "/openapi.yaml"}, &document)
	return document, err
}

// Types of the results of Client.Usage and Client.UsageOfAll. Package api describes their fields.
type (
	Usage       = api.Usage
	UsageLimits = api.UsageLimits
	UsageSecond = api.UsageSecond
	UsagePeriod = api.UsagePeriod
	UsageQuotas = api.UsageQuotas

	UsageIdentities = api.UsageIdentities
	IdentityUsage   = api.IdentityUsage
	SavedQuery      = api.SavedQuery
)

// Usage returns what an address or API key has used in the last 60 seconds; the most recent
// requests may be missing. identity is an address, or key:<id> for an API key. If it is empty,
// Usage is about the address or key under which the caller's own requests are counted. Otherwise,
// the caller's key needs the scope operator.
func (c *Client) Usage(ctx context.Context, identity string) (u Usage, err error) {
	query := values("address", identity)
	if id, ok := strings.CutPrefix(identity, "key:"); ok {
		query = values("key", id)
	}
	_, err = c.do(ctx, call{route: route{"usage", http.MethodGet, classGeneral}, path: "/usage", query: query}, &u)
	return u, err
}

// UsageOfAll returns who has used the most in the last minute, the UTC day or the calendar month. period is
// "minute", "day" or "month". sort says what comes first if it is highest: "share", the default, "records",
// "imports" or, only of a minute, "requests" or "refused". The caller's key needs the scope operator.
func (c *Client) UsageOfAll(ctx context.Context, period, sort string) (UsageIdentities, error) {
	var u struct {
		Identities UsageIdentities `json:"identities"`
	}
	_, err := c.do(ctx, call{route: route{"usage", http.MethodGet, classGeneral}, path: "/usage", query: values("identities", period, "sort", sort)}, &required{"identities", &u})
	return u.Identities, err
}

// getPage returns a page of at most limit records. If limit is 0, the page size is up to the pacer
// or, for a list that does not cost records, up to the service.
func getPage[T any](ctx context.Context, c *Client, r route, path string, query url.Values, limit int) (page Page[T], err error) {
	_, err = c.do(ctx, listCall(r, path, query, limit), &required{"data", &page})
	return page, err
}

func listCall(r route, path string, query url.Values, limit int) call {
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return call{route: r, path: path, query: query, records: int64(limit), paced: r.class == classExport}
}

func getOne[T any](ctx context.Context, c *Client, r route, path, id string) (one T, err error) {
	// An invalid id could turn the path into that of another route.
	if err := record.CheckID(id); err != nil {
		return one, &Error{Route: r.name, Code: "invalid_id", Detail: "the id " + err.Error()}
	}
	_, err = c.do(ctx, call{route: r, path: path + id, records: 1}, &required{"id", &one})
	return one, err
}

func (c *Client) post(ctx context.Context, r route, path string, body, out any) (status int, err error) {
	return c.change(ctx, r, path, body, &required{"id", out})
}

func (c *Client) change(ctx context.Context, r route, path string, body, out any) (status int, err error) {
	k := call{route: r, path: path}
	if k.body, err = encode(body); err != nil {
		return 0, err
	}
	return c.do(ctx, k, out)
}

// created is false if the record already existed.
func create[T any](ctx context.Context, c *Client, r route, path string, body any) (stored T, created bool, err error) {
	status, err := c.post(ctx, r, path, body, &stored)
	return stored, status == http.StatusCreated, err
}

var errSamePage = &Error{Detail: "the next cursor leads to the same page"}

func records[T any](cursor string, get func(cursor string) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			page, err := get(cursor)
			if err == nil && page.NextCursor != nil && *page.NextCursor == cursor {
				err = errSamePage
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, r := range page.Data {
				if !yield(r, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			cursor = *page.NextCursor
		}
	}
}

// values takes alternating names and values. It leaves out a name whose value is empty.
func values(pairs ...string) url.Values {
	v := make(url.Values)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// newID cannot fail, because crypto/rand cannot.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
