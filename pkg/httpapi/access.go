package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sluice/pkg/access"
)

// sessionCookie is the name of the cookie that carries the API key of the dashboard's
// page. This page sends no Authorization header.
const sessionCookie = "sluice_session"

// secureSessionCookie is the name of the session cookie over HTTPS. Browsers accept a
// cookie with the prefix __Host- only from the host itself, so a neighboring domain
// cannot set it (RFC 6265bis, section 4.1.3.2).
const secureSessionCookie = "__Host-" + sessionCookie

// challenge begins the header WWW-Authenticate, which asks for an API key or for another one.
const challenge = `Bearer realm="sluice"`

// Reasons for rejecting a request. The log shows these reasons and the reasons of package
// access.
const (
	refusedNoKey       = "no_key"
	refusedCrossOrigin = "cross_origin"
	refusedScope       = "missing_scope"
	refusedDirect      = "direct_request"
	refusedHost        = "unknown_host"
)

// authenticate checks how the request came in and who sent it, and sets r.key and
// r.workspace. Every invalid key gets the same error, no matter why it is invalid.
func (e *endpoint) authenticate(ctx context.Context, r *request) (err error) {
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
		r.setKey(access.Key{Workspace: access.DefaultWorkspace, Scopes: access.Scopes()})
		return nil
	}
	key, err := credentials(r)
	if err != nil {
		return err
	}
	return e.admit(ctx, r, key, e.route.Scope)
}

// admit accepts a valid API key that has the scope.
func (s *service) admit(ctx context.Context, r *request, key string, scope access.Scope) error {
	d, err := s.Access.Authenticate(ctx, key)
	r.log.keyID = d.KeyID
	switch {
	case err != nil:
		return &apiError{
			status: http.StatusServiceUnavailable, code: "access_unavailable", cause: err,
			detail: "the API key could not be checked, so nothing was done; try again",
		}
	case d.Refused != "":
		r.log.refused = string(d.Refused)
		return &apiError{
			status: http.StatusUnauthorized, code: "invalid_key", header: http.Header{"Www-Authenticate": {challenge + `, error="invalid_token"`}},
			detail: "the API key is not valid: it is mistyped, unknown, expired or revoked; check it, or ask for a new one",
		}
	}
	s.setSource(ctx, r, d.Key.Workspace)
	if !d.Key.Has(scope) {
		return r.missingScope(scope)
	}
	r.setKey(d.Key)
	return nil
}

func (r *request) missingScope(scope access.Scope) error {
	r.log.refused = refusedScope
	return &apiError{
		status: http.StatusForbidden, code: "missing_scope",
		header: http.Header{"Www-Authenticate": {fmt.Sprintf(`%s, error="insufficient_scope", scope=%q`, challenge, scope)}},
		detail: fmt.Sprintf("the API key lacks the scope %s; use a key that has it", scope),
	}
}

func (r *request) setKey(key access.Key) { r.key, r.workspace = key, key.Workspace }

// credentials returns the API key in r. The key is in the Authorization header or, if
// that header is absent, in the session cookie. If the scheme in the header is not
// Bearer, credentials returns "", which is never a valid key.
//
// A browser sends the cookie automatically. If the key is from the cookie, credentials
// therefore rejects a request from another origin. Requests with a safe method (GET, HEAD
// or OPTIONS) are not rejected.
func credentials(r *request) (string, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, text, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", nil
		}
		return strings.TrimLeft(text, " "), nil
	}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil || cookie.Value == "" {
		r.log.refused = refusedNoKey
		return "", &apiError{
			status: http.StatusUnauthorized, code: "missing_key", header: http.Header{"Www-Authenticate": {challenge}},
			detail: "this route needs an API key; send it as Authorization: Bearer slc_…",
		}
	}
	return cookie.Value, checkOrigin(r)
}

// checkOrigin rejects a request with an unsafe method if the request comes from a page of
// another origin.
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
