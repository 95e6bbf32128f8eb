package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// sourceHeader is the response header that says which records a response is about.
const sourceHeader = "Sluice-Source"

// SourceRoute is the Try.Route of the requests that Source sends.
const SourceRoute = "list-export-job"

// Source returns text that identifies the records that the Client reads and writes: the id of
// the service's data, a slash and the workspace of the API key. A program that keeps a copy, or
// continues earlier work, must check that the source is still the same. The source can change
// under the same URL: with another API key, or when the data is deleted or restored. After
// Source has succeeded, calls fail if their response comes from another source.
func (c *Client) Source(ctx context.Context) (source string, err error) {
	k := call{route: route{SourceRoute, http.MethodGet, classGeneral}, path: "/export_job", query: url.Values{"limit": {"1"}}}
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		// Even if the key lacks the scope for this route, the response has the header.
		if source = got.header.Get(sourceHeader); source != "" && (failure == nil || failure.Rejected()) {
			return nil
		}
		return cmp.Or(failure, &Error{Detail: "the response has no " + sourceHeader + ": is a proxy removing it, or does the service at this URL lack it?"})
	})
	if err == nil {
		c.source.Store(&source)
	}
	return source, err
}

// Date returns when the service sent the latest response that had a Date, by its own clock and in
// whole seconds; zero if there was none.
func (c *Client) Date() time.Time {
	if at := c.date.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// noteDate sets the result of Date.
func (c *Client) noteDate(header http.Header) {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		c.date.Store(&at)
	}
}

// checkSource fails if the response names a source other than the one that Source returned.
func (c *Client) checkSource(header http.Header) *Error {
	want, got := c.source.Load(), header.Get(sourceHeader)
	if want == nil || got == "" || got == *want {
		return nil
	}
	return &Error{Err: fmt.Errorf("the response is about other records (%s) than those before (%s)", got, *want)}
}
