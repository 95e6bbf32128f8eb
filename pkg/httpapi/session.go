package httpapi

import (
	"errors"
	"net/http"

	"sluice/pkg/access"
	"sluice/pkg/record"
)

// signIn puts an API key with the scope "dashboard" into the session cookie. If API keys are
// off, it sets no cookie.
func signIn(s *service, r *request) (response, error) {
	if err := checkOrigin(r); err != nil {
		return response{}, err
	}
	var key string
	if err := (record.Decoders{"key": record.Text(&key, nil)}).Decode(r.body); err != nil {
		return response{}, err
	}
	if s.AccessOff {
		return session(nil), nil
	}
	if s.Access == nil {
		return response{}, errors.New("KEYS_TABLE names no table, so nobody can sign in")
	}
	if err := s.admit(r.Context(), r, key, s.Access.Authenticate, access.Dashboard); err != nil {
		return response{}, err
	}
	return session(sessionOf(r, key)), nil
}

// signOut removes the cookie. The API key stays valid until it is revoked.
func signOut(_ *service, r *request) (response, error) {
	if err := checkOrigin(r); err != nil {
		return response{}, err
	}
	cookie := sessionOf(r, "")
	cookie.MaxAge = -1
	return session(cookie), nil
}

// sessionOf returns a cookie that lasts until the browser is closed. Scripts cannot read it,
// and requests from other sites do not carry it.
func sessionOf(r *request, key string) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: scheme(r) == "https"}
}

func cookieName(r *request) string {
	if scheme(r) == "https" {
		return secureSessionCookie
	}
	return sessionCookie
}

// session returns an empty response, which sets the cookie unless cookie is nil.
func session(cookie *http.Cookie) response {
	out := response{status: http.StatusNoContent}
	if cookie != nil {
		out.header = http.Header{"Set-Cookie": {cookie.String()}}
	}
	return out
}
