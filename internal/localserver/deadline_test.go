package localserver

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/record"
)

// listen starts a server from newServer, but with shorter timeouts and small write buffers.
// closed receives a value for each connection that the server closes.
func listen(t *testing.T, handler http.Handler, write time.Duration) (addr string, closed <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(handler, slog.New(slog.DiscardHandler))
	if server.WriteTimeout <= server.ReadTimeout || server.ReadTimeout == 0 {
		t.Errorf("WriteTimeout %v, ReadTimeout %v: a request that stalls would get no response", server.WriteTimeout, server.ReadTimeout)
	}
	server.ReadTimeout, server.WriteTimeout = write/2, write
	closing := make(chan struct{}, 1000)
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if err := conn.(*net.TCPConn).SetWriteBuffer(4096); err != nil {
				t.Error(err)
			}
		case http.StateClosed:
			closing <- struct{}{}
		}
	}
	go server.Serve(listener)            //nolint:errcheck // Serve fails when the server is closed
	t.Cleanup(func() { server.Close() }) //nolint:errcheck // the test is over
	return listener.Addr().String(), closing
}

// liveHeap returns the size of the heap in bytes after a garbage collection.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees pooled objects, which survive the first collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestClientsThatDoNotReadAreDisconnected(t *testing.T) {
	dir, logger := t.TempDir(), slog.New(slog.DiscardHandler)
	b, err := openEmbedded(dir, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.close() }) //nolint:errcheck // a temporary directory
	large := record.Attributes(`{"text":"` + strings.Repeat("x", 200_000) + `"}`)
	d := entity.Draft{ID: "large", Attributes: large}
	if _, _, err := entity.Create(t.Context(), b.stores.Entities, "default", d); err != nil {
		t.Fatal(err)
	}
	if _, err := openBackground(b, dir, func(string) string { return "" }, logger); err != nil {
		t.Fatal(err)
	}
	handler, err := newHandler(httpapi.Config{AccessOff: true}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, b, logger)
	if err != nil {
		t.Fatal(err)
	}
	addr, closed := listen(t, handler, 3*time.Second)
	before := liveHeap()

	const clients = 200
	for i := range clients {
		// Each client has its own address, so no limit refuses it.
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, 0, byte(i+1))}}
		conn, err := dialer.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the server has closed the connection
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		// Each response is 200 KB, more than the buffers of both ends hold.
		if _, err := io.WriteString(conn, "GET /entity HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(time.Minute)
	for n := range clients {
		select {
		case <-closed:
		case <-deadline:
			t.Fatalf("the server closed %d of %d connections", n, clients)
		}
	}
	grown := liveHeap() - before
	t.Logf("the heap has grown by %d bytes", grown)
	if grown > 20<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}
