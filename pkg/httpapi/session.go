package httpapi

import (
	"errors"
	"net/http"

	"sluice/pkg/access"
)

// signIn puts a key into the session cookie, if it opens the dashboard. Where
// keys are off there is nothing to sign in to, and no cookie is set.
func signIn(h *Handler, r *request) (reply, error) {
	if err := checkOrigin(r); err != nil {
		return reply{}, err
	}
	var key string
	if err := decodeBody(r, maxBodyBytes, fields{{"key", text(&key, nil)}}); err != nil {
		return reply{}, err
	}
	if h.opts.AccessOff {
		return session(nil), nil
	}
	if h.opts.Access == nil {
		return reply{}, errors.New("KEYS_TABLE names no table, so nobody can sign in")
	}
	if err := h.admit(r, key, access.Dashboard); err != nil {
		return reply{}, err
	}
	return session(sessionOf(r, key)), nil
}

// signOut takes the cookie away. The key stays good: revoking ends that.
func signOut(_ *Handler, r *request) (reply, error) {
	if err := checkOrigin(r); err != nil {
		return reply{}, err
	}
	cookie := sessionOf(r, "")
	cookie.MaxAge = -1
	return session(cookie), nil
}

// sessionOf is the cookie that holds a key until the browser is closed. No
// script can read it, and no request that another site caused brings it.
func sessionOf(r *request, key string) *http.Cookie {
	return &http.Cookie{Name: sessionCookie, Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: scheme(r) == "https"}
}

// session is the reply that sets the cookie, if there is one.
func session(cookie *http.Cookie) reply {
	out := reply{status: http.StatusNoContent, encoded: []byte{}}
	if cookie != nil {
		out.header = http.Header{"Set-Cookie": {cookie.String()}}
	}
	return out
}
