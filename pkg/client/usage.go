package client

import (
	"context"
	"net/http"
)

// Usage is what an address has used of its limits in the last minute.
type Usage struct {
	Address string        `json:"address"` // as it is counted: IPv6 by its network
	Limit   int64         `json:"limit"`   // the lowest of Limits
	Limits  UsageLimits   `json:"limits"`
	Seconds []UsageSecond `json:"seconds"` // oldest first; the last one is not over yet
}

// UsageLimits are the limits of the rules, each a second.
type UsageLimits struct {
	Records  int64 `json:"records"`
	Imports  int64 `json:"imports"`
	Requests int64 `json:"requests"` // of each route
}

// UsageSecond is what was used in one window.
type UsageSecond struct {
	Second   int64            `json:"second"` // Unix time at which it began
	Records  int64            `json:"records"`
	Imports  int64            `json:"imports"`
	Requests map[string]int64 `json:"requests"` // by route, such as list-entity; without those that were not called
}

// Usage tells what an address has used; the caller's own if it is "". The last
// second or two may lack what was used a moment ago.
func (c *Client) Usage(ctx context.Context, address string) (u Usage, err error) {
	_, err = c.do(ctx, call{route: route{"usage", http.MethodGet, general}, path: "/usage", query: values("address", address)}, &u)
	return u, err
}
