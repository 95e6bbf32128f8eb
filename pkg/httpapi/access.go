package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"sluice/pkg/access"
)

// sessionCookie holds the text of a key for the dashboard's page, in place of
// an Authorization header.
const sessionCookie = "sluice_session"

// caller is whose request it is.
type caller struct {
	workspace string // whose records it works on; "" for routes that are public
	keyID     string // of its key, let in or not; no secret
	refused   string // why it was not let in, for the log; "" otherwise
}

// Reasons of the log for a refusal, beside those of package access.
const (
	refusedNoKey       = "no_key"
	refusedCrossOrigin = "cross_origin"
	refusedScope       = "missing_scope"
)

// authenticate lets r in and sets its workspace. Its error is an *apiError, and
// the same for every key that is not good, whatever is wrong with it.
func (h *Handler) authenticate(r *request) error {
	switch {
	case h.route.Scope == access.Public:
		return nil
	case h.opts.AccessOff:
		r.workspace = access.DefaultWorkspace
		return nil
	}
	text, err := credentials(r)
	if err != nil {
		return err
	}
	return h.admit(r, text, h.route.Scope)
}

// admit lets r in by the text of a key, if that has the scope.
func (h *Handler) admit(r *request, text string, scope access.Scope) error {
	d, err := h.opts.Access.Authenticate(r.Context(), text)
	r.keyID = d.KeyID
	switch {
	case err != nil:
		return &apiError{
			status: http.StatusServiceUnavailable, code: "access_unavailable", retryAfter: true, cause: err,
			detail: "the access key could not be checked, so nothing was done; try again",
		}
	case d.Refused != "":
		r.refused = string(d.Refused)
		return &apiError{
			status: http.StatusUnauthorized, code: "invalid_key", challenge: `Bearer realm="sluice", error="invalid_token"`,
			detail: "the access key is not valid: it is mistyped, unknown, expired or revoked; check it, or ask for a new one",
		}
	case !d.Key.Has(scope):
		r.refused = refusedScope
		return &apiError{
			status: http.StatusForbidden, code: "missing_scope",
			challenge: fmt.Sprintf(`Bearer realm="sluice", error="insufficient_scope", scope=%q`, scope),
			detail:    fmt.Sprintf("the access key lacks the scope %s; use a key that has it", scope),
		}
	}
	r.workspace = d.Key.Workspace
	return nil
}

// credentials is the text that r brings as its key: that of the header
// Authorization or, without one, of the session cookie. The text of a header
// with another scheme than Bearer is no key.
//
// A browser sends the cookie by itself, so a request with it that may change
// something must come from a page of the same origin.
func credentials(r *request) (string, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, text, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", nil
		}
		return strings.TrimLeft(text, " "), nil
	}
	cookie, err := r.Cookie(sessionCookie)
	if err != nil || cookie.Value == "" {
		r.refused = refusedNoKey
		return "", &apiError{
			status: http.StatusUnauthorized, code: "missing_key", challenge: `Bearer realm="sluice"`,
			detail: "this route needs an access key; send it as Authorization: Bearer slc_…",
		}
	}
	return cookie.Value, checkOrigin(r)
}

// checkOrigin refuses what a page of another origin asks for, unless it only
// reads.
func checkOrigin(r *request) error {
	if err := new(http.CrossOriginProtection).Check(r.Request); err != nil {
		r.refused = refusedCrossOrigin
		return &apiError{
			status: http.StatusForbidden, code: "cross_origin_request",
			detail: "a session is good only for requests from the service's own pages; send the key as Authorization: Bearer slc_…",
		}
	}
	return nil
}
