// Package servertest runs the "sluice serve" server inside the test process.
package servertest

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/localserver"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
)

// Start runs the server until the end of the test. The server has default limits, requires API
// keys, and keeps its data in dir.
func Start(t testing.TB, dir string) (url string) {
	t.Helper()
	return StartWith(t, map[string]string{"AUTH_MODE": "api-key"}, localserver.Options{DataDir: dir})
}

// StartWith runs the server until the end of the test, with environment variables and options. It
// listens on a free port.
func StartWith(t testing.TB, env map[string]string, o localserver.Options) (url string) {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	output, written := io.Pipe()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		getenv := func(name string) string { return env[name] }
		stderr := io.MultiWriter(t.Output(), written)
		ended <- localserver.Run(ctx, getenv, o, written, stderr)
		written.Close() //nolint:errcheck // closing a pipe does not fail
	}()
	urls := make(chan string, 1) // closed at the end of the output
	go func() {
		defer close(urls)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			secrettest.Check(t, "the server", lines.Text())
			if _, url, ok := strings.Cut(lines.Text(), "Sluice listens on "); ok {
				urls <- url
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for range urls {
		}
	})
	url, ok := <-urls
	if !ok {
		t.Fatal("the server did not start")
	}
	return url
}

// CreateKey creates an API key with all scopes. Call it before Start.
func CreateKey(t testing.TB, dir, workspace string) (key string) {
	t.Helper()
	if err := bolt.CreateDir(dir); err != nil {
		t.Fatal(err)
	}
	keys, err := bolt.OpenKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	k, token := secrettest.New(t, access.Key{Workspace: workspace, Scopes: access.Scopes()}, time.Now())
	if err := keys.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}
