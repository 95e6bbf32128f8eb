package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sluice/pkg/access"
)

// sessionCookie is the cookie that holds the dashboard's API key, because the page sends no
// Authorization header.
const sessionCookie = "sluice_session"

// secureSessionCookie is the session cookie over HTTPS. Browsers accept a cookie with the
// prefix __Host- only from the host itself, so a neighboring domain cannot set it (RFC
// 6265bis, section 4.1.3.2).
const secureSessionCookie = "__Host-" + sessionCookie

// challenge is the start of every WWW-Authenticate header.
const challenge = `Bearer realm="sluice"`

// Reasons that the log gives for a rejection, in addition to those of package access.
const (
	refusedNoKey       = "no_key"
	refusedCrossOrigin = "cross_origin"
	refusedScope       = "missing_scope"
	refusedDirect      = "direct_request"
	refusedHost        = "unknown_host"
)

// check authenticates a token: [access.Authenticator.Authenticate], or Precheck before the charge.
type check func(ctx context.Context, token string, client netip.Addr) (access.Decision, error)

// precheckKey is the check before the charge.
func (s *service) precheckKey(r *request) check {
	return func(ctx context.Context, token string, client netip.Addr) (access.Decision, error) {
		return s.Access.Precheck(ctx, token, client, r.client)
	}
}

// authenticate checks how the request arrived and who sent it, and sets r.key and r.workspace.
// Every invalid key gets the same error. On public routes, no key is checked.
func (e *endpoint) authenticate(ctx context.Context, r *request, checked check) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := e.checkHost(r); err != nil {
		return err
	}
	switch {
	case e.route.Scope == access.Public:
		return nil
	case e.AccessOff:
		r.key, r.workspace = access.Key{Scopes: access.Scopes()}, access.DefaultWorkspace
		return nil
	}
	key, err := credentials(r)
	if err != nil {
		return err
	}
	return e.admit(ctx, r, key, checked, e.route.Scopes()...)
}

// admit accepts an API key that is valid and has one of the scopes. If only the scope is missing,
// admit returns an error but still sets r.key.
func (s *service) admit(ctx context.Context, r *request, key string, checked check, scopes ...access.Scope) error {
	client, err := netip.ParseAddr(r.address)
	if err != nil {
		return err
	}
	d, err := checked(ctx, key, client)
	r.log.keyID = d.KeyID
	switch {
	case err != nil:
		return &apiError{
			status: http.StatusServiceUnavailable, code: "access_unavailable", cause: err,
			detail: "the API key could not be checked, so nothing was done; try again",
		}
	case d.Refused != "":
		r.log.refused = string(d.Refused)
		return invalidKey()
	}
	r.key, r.counted = d.Key, d.Counted
	s.setSource(ctx, r, d.Key.Workspace)
	if err := r.require(scopes...); err != nil {
		return err
	}
	r.workspace = d.Key.Workspace
	return nil
}

func invalidKey() *apiError {
	return &apiError{
		status: http.StatusUnauthorized, code: "invalid_key", header: http.Header{"Www-Authenticate": {challenge + `, error="invalid_token"`}},
		detail: "the API key is not valid: it is mistyped, unknown, expired, revoked or not accepted from your address; check it, or ask for a new one",
	}
}

// require accepts a key with one of the scopes.
func (r *request) require(scopes ...access.Scope) error {
	if slices.ContainsFunc(scopes, r.key.Has) {
		return nil
	}
	r.log.refused = refusedScope
	scope := scopes[0]
	return &apiError{
		status: http.StatusForbidden, code: "missing_scope",
		header: http.Header{"Www-Authenticate": {fmt.Sprintf(`%s, error="insufficient_scope", scope=%q`, challenge, scope)}},
		detail: fmt.Sprintf("the API key lacks the scope %s; use a key that has it", scope),
	}
}

// token returns the API key in the Authorization header or, if there is no such header, in the
// session cookie; ok is false if there is neither. Any scheme other than Bearer yields "", which
// is never a valid key.
func token(r *request) (text string, fromCookie, ok bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, text, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false, true
		}
		return strings.TrimLeft(text, " "), false, true
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil || cookie.Value == "" {
		return "", false, false
	}
	return cookie.Value, true, true
}

// credentials returns the API key in r, or an error. A page from another origin can make a browser
// send the session cookie, so the cookie of such a request is accepted only if the method is safe
// (GET, HEAD, OPTIONS).
func credentials(r *request) (string, error) {
	text, fromCookie, ok := token(r)
	if !ok {
		r.log.refused = refusedNoKey
		return "", &apiError{
			status: http.StatusUnauthorized, code: "missing_key", header: http.Header{"Www-Authenticate": {challenge}},
			detail: "this route needs an API key; send it as Authorization: Bearer slc_…",
		}
	}
	if fromCookie {
		return text, checkOrigin(r)
	}
	return text, nil
}

// checkOrigin rejects a cross-origin request, unless its method is safe.
func checkOrigin(r *request) error {
	if err := new(http.CrossOriginProtection).Check(r.Request); err != nil {
		r.log.refused = refusedCrossOrigin
		return &apiError{
			status: http.StatusForbidden, code: "cross_origin_request",
			detail: "a session is valid only for requests from the service's own pages; send the key as Authorization: Bearer slc_…",
		}
	}
	return nil
}
