package localserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
)

// serveBounded serves the API to at most 16 connections, 4 of one address.
func serveBounded(t *testing.T, cfg httpapi.Config) (addr string) {
	t.Helper()
	dir, logger := t.TempDir(), slog.New(slog.DiscardHandler)
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openBackground(b, dir, os.Getenv, logger); err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.AccessOff, cfg.IPv6Prefix = true, 64
	handler, err := newHandler(cfg, inner.Addr(), b, logger)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(handler, logger)
	l := newListener(inner, otherFiles+16, cfg, logger)
	l.attach(server, handler.UnchargedHeaders)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served, b.close()); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return inner.Addr().String()
}

// dialFrom connects from a loopback address.
func dialFrom(t *testing.T, client, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: 10 * time.Second}).Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test is over
	return conn
}

// isOpen reports whether the server has kept a connection.
func isOpen(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

func exchange(t *testing.T, conn net.Conn, text string) *http.Response {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server may respond before it has read all of the text.
	go io.WriteString(conn, text) //nolint:errcheck // the response shows what arrived
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	return resp
}

const health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

func TestOneAddressCannotTakeAllConnections(t *testing.T) {
	addr := serveBounded(t, httpapi.Config{})
	var idle []net.Conn
	for range 40 {
		idle = append(idle, dialFrom(t, "127.0.0.2", addr))
	}
	var kept []net.Conn
	for _, conn := range idle {
		if isOpen(t, conn) {
			kept = append(kept, conn)
		}
	}
	if len(kept) != 4 {
		t.Errorf("%d connections of one address are open, want 4", len(kept))
	}
	if resp := exchange(t, dialFrom(t, "127.0.0.3", addr), health); resp.StatusCode != 200 {
		t.Errorf("another address: %s", resp.Status)
	}
	kept[0].Close() //nolint:errcheck // its effect is tested below
	for deadline := time.Now().Add(10 * time.Second); !isOpen(t, dialFrom(t, "127.0.0.2", addr)); {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
	}
}

// All clients of a proxy have its address.
func TestAProxyMayTakeAllConnections(t *testing.T) {
	addr := serveBounded(t, httpapi.Config{ClientIPHeader: "X-Forwarded-For"})
	for n := range 20 {
		if open := isOpen(t, dialFrom(t, "127.0.0.2", addr)); open != (n < 16) {
			t.Errorf("connection %d: open %t", n, open)
		}
	}
}

// net/http responds to these requests without calling the handler.
func TestResponsesToUnreadableRequestsHaveTheLimitHeaders(t *testing.T) {
	addr, client := serveBounded(t, httpapi.Config{}), 1
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"no Host":                     {"GET /health HTTP/1.1\r\n\r\n", 400},
		"two hosts":                   {"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"a malformed request line":    {"GET\r\n\r\n", 400},
		"a malformed header":          {"GET /health HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
		"a malformed length":          {"POST /create_event HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400},
		"two lengths":                 {"POST /create_event HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		"an unknown transfer coding":  {"POST /create_event HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 501},
		"an unknown version":          {"GET /health HTTP/3.1\r\nHost: a\r\n\r\n", 505},
		"an unknown expectation":      {"GET /health HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417},
		"a header of 16 KB":           {"GET /health HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", 431},
		"headers of 16 KB":            {"GET /health HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: x\r\n", 16<<10/6) + "\r\n", 431},
		"a request line of 16 KB":     {"GET /health?" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
		"a header of a megabyte":      {"GET /health HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431},
		"a header of 12,000 bytes":    {"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 12_000) + "\r\n\r\n", 200},
		"the handler's own responses": {"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
	} {
		for _, again := range []bool{false, true} {
			client++
			conn := dialFrom(t, fmt.Sprintf("127.0.0.%d", client), addr) // net/http closes some connections only after a while
			if again {                                                   // after a request that the handler served
				if resp := exchange(t, conn, health); resp.StatusCode != 200 {
					t.Errorf("%s: before: %s", name, resp.Status)
				}
			}
			resp := exchange(t, conn, tt.text)
			conn.Close() //nolint:errcheck // the response has been read
			if resp.StatusCode != tt.status {
				t.Errorf("%s: %s, want %d", name, resp.Status, tt.status)
			}
			for _, header := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit-Policy", "Ratelimit"} {
				if len(resp.Header[header]) != 1 {
					t.Errorf("%s: %s: %q", name, header, resp.Header[header])
				}
			}
		}
	}
}
