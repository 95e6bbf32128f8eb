package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"sluice/internal/test/browsertest"
)

// With CORS_ORIGINS, a page of another origin can send everything that a client sends, and read
// everything that it needs, errors included.
func TestAPageOfAnotherOriginIsAClient(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>A front end</title>")
	}))
	defer page.Close()
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	s := startIn(t, append(env, "CORS_ORIGINS=https://app.example.com,"+page.URL))
	tab := browsertest.Start(t).Tab(t, browsertest.Desktop)
	tab.Open(page.URL)
	got := browsertest.Eval[string](tab, fmt.Sprintf(`(async () => {
		const send = (path, options = {}) => fetch('%s' + path, {
			...options, method: options.body ? 'POST' : 'GET',
			headers: { Authorization: 'Bearer ' + (options.key ?? '%s'), ...(options.body && { 'Content-Type': 'application/json' }), ...options.headers },
		});
		const created = await send('/create_entity', { body: '{"id":"ada"}' });
		const read = await send('/entity/ada');
		const changed = await send('/update_entity', { body: '{"id":"ada","attributes":{"n":1}}', headers: { 'If-Match': read.headers.get('ETag') } });
		const refused = await send('/entity', { key: 'wrong' });
		return [
			created.status, read.status, (await read.json()).id, changed.status, refused.status, (await refused.json()).code,
			created.headers.get('X-RateLimit-Limit'), refused.headers.get('X-RateLimit-Limit'), Boolean(read.headers.get('Sluice-Source')),
		].join(' ');
	})()`, s.url, createKey(t, env, "--scope", "import,export")))
	if want := "201 200 ada 200 401 invalid_key 200 200 true"; got != want {
		t.Errorf("the page has got %q, want %q", got, want)
	}
}
