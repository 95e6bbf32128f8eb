package localserver

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
)

// Bounds on connections.
const (
	maxConnections = 4096 // less if the process may open fewer files
	maxPerAddress  = 256  // less if it is more than a quarter of all
	otherFiles     = 64   // descriptors that are left for files
)

// listener closes connections that exceed a bound as soon as it has accepted them, so that nobody
// can take all descriptors of the process by opening connections.
type listener struct {
	net.Listener
	most       int // in all
	perAddress int // 0 for no bound
	ipv6Prefix int // addresses are told apart as by the rate limits
	logger     *slog.Logger

	limitHeaders func() http.Header // for a response that is not charged

	mu     sync.Mutex
	all    int
	open   map[netip.Prefix]int // by address
	warned time.Time
}

// newListener bounds the connections of a process that may open as many files as descriptors. Behind
// a proxy, all clients have its address, so there is no bound for one address.
func newListener(inner net.Listener, descriptors int, cfg httpapi.Config, logger *slog.Logger) *listener {
	l := &listener{Listener: inner, most: max(4, min(maxConnections, descriptors-otherFiles)), ipv6Prefix: cfg.IPv6Prefix, logger: logger, open: make(map[netip.Prefix]int)}
	if cfg.ClientIPHeader == "" {
		l.perAddress = min(maxPerAddress, l.most/4)
	}
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{TCPConn: accepted.(*net.TCPConn), listener: l, address: l.addressOf(accepted)}
		if l.admit(c.address) {
			return c, nil
		}
		accepted.Close() //nolint:errcheck // nothing was sent
	}
}

func (l *listener) addressOf(c net.Conn) netip.Prefix {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	address, _ := ratelimit.ParseAddress(host, l.ipv6Prefix) // never fails for the address of a TCP connection
	return address
}

func (l *listener) admit(address netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all < l.most && (l.perAddress == 0 || l.open[address] < l.perAddress) {
		l.all++
		l.open[address]++
		return true
	}
	if now := time.Now(); now.Sub(l.warned) > time.Minute {
		l.warned = now
		l.logger.Warn("connections are refused", "address", address.String(), "open", l.open[address], "most", l.perAddress, "open_in_all", l.all, "most_in_all", l.most)
	}
	return false
}

func (l *listener) release(address netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.open[address]--; l.open[address] == 0 {
		delete(l.open, address)
	}
}

// conn adds the rate limit headers to responses that net/http writes without calling the handler,
// such as those to requests with too many headers or without Host.
type conn struct {
	*net.TCPConn
	listener *listener
	address  netip.Prefix
	handled  atomic.Bool // whether the handler has been called for the current request
	closed   atomic.Bool
}

type connKey struct{}

// attach makes server tell each conn whether its handler has been called.
func (l *listener) attach(server *http.Server, limitHeaders func() http.Header) {
	l.limitHeaders = limitHeaders
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			c.(*conn).handled.Store(false)
		}
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(connKey{}).(*conn).handled.Store(true)
		next.ServeHTTP(w, r)
	})
}

func (c *conn) Write(b []byte) (int, error) {
	if c.handled.Load() {
		return c.TCPConn.Write(b)
	}
	status, rest, _ := bytes.Cut(b, []byte("\r\n")) // net/http writes the status line and the headers at once
	var all bytes.Buffer
	all.Write(status)
	all.WriteString("\r\n")
	c.listener.limitHeaders().Write(&all) //nolint:errcheck // a buffer
	all.Write(rest)
	if _, err := c.TCPConn.Write(all.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.listener.release(c.address)
	}
	return c.TCPConn.Close()
}
