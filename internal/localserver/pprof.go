package localserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // adds its handlers to http.DefaultServeMux, which has no other handlers
	"net/netip"
)

// startProfiles serves net/http/pprof at addr, which must be a loopback address, until stop is
// called. It does nothing if addr is empty.
func startProfiles(addr string, stdout io.Writer) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	if at, err := netip.ParseAddrPort(addr); err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("--pprof %s: choose a loopback address, such as 127.0.0.1:6060", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: readHeaderTimeout}
	go server.Serve(listener) //nolint:errcheck // fails when the server is closed
	fmt.Fprintf(stdout, "Profiles are at http://%s/debug/pprof/\n", listener.Addr())
	return func() { server.Close() }, nil //nolint:errcheck // nothing depends on it
}
