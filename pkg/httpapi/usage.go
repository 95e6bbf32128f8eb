package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

// usageBody is the JSON of an address's usage.
type usageBody struct {
	Address string        `json:"address"` // as it is counted
	Limit   int64         `json:"limit"`   // the lowest of Limits
	Limits  usageLimits   `json:"limits"`
	Seconds []usageSecond `json:"seconds"` // oldest first, the last one not over yet
}

type usageLimits struct {
	Records  int64 `json:"records"`
	Imports  int64 `json:"imports"`
	Requests int64 `json:"requests"`
}

type usageSecond struct {
	Second   int64            `json:"second"` // Unix time
	Records  int64            `json:"records"`
	Imports  int64            `json:"imports"`
	Requests map[string]int64 `json:"requests"` // by route name, those alone that were called
}

// getUsage shows what an address has used in the last minute: the caller's own,
// or the one that the parameter names, also as an answer shows it.
func getUsage(h *Handler, r *request) (reply, error) {
	p := parseQuery(r, "address")
	text := r.address
	if p.values.Has("address") {
		text = strings.TrimSuffix(p.values.Get("address"), "/"+strconv.Itoa(h.opts.IPv6Prefix))
	}
	address, err := ratelimit.ParseAddress(text, h.opts.IPv6Prefix)
	if err != nil {
		p.wrong.Add("address", "must be an IPv4 or IPv6 address")
	}
	if err := p.err(); err != nil {
		return reply{}, err
	}
	windows, err := ratelimit.Usage(r.Context(), h.stores.Usage, address, ratelimit.WindowAt(h.opts.Now()))
	if err != nil {
		return reply{}, record.UnavailableError("usage", err)
	}
	limits := h.limiter.Limits()
	body := usageBody{
		Address: address,
		Limit:   min(limits.Records, limits.Imports, limits.Requests),
		Limits:  usageLimits{Records: limits.Records, Imports: limits.Imports, Requests: limits.Requests},
		Seconds: make([]usageSecond, len(windows)),
	}
	for i, w := range windows {
		body.Seconds[i] = usageSecond{Second: int64(w.Window), Records: w.Records, Imports: w.Imports, Requests: w.Requests}
	}
	return reply{status: http.StatusOK, body: body}, nil
}
