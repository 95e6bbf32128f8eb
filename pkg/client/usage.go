package client

import (
	"context"
	"net/http"

	"sluice/pkg/api"
)

// What Usage returns.
type (
	Usage       = api.Usage
	UsageLimits = api.UsageLimits
	UsageSecond = api.UsageSecond
)

// Usage returns what an address has used; the caller's own if it is "". The last
// second or two may lack what was used a moment ago.
func (c *Client) Usage(ctx context.Context, address string) (u Usage, err error) {
	_, err = c.do(ctx, call{route: route{"usage", http.MethodGet, general}, path: "/usage", query: values("address", address)}, &u)
	return u, err
}
