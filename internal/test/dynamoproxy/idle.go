package dynamoproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// Cut is how an idle connection ends.
type Cut string

// How servers and networks end connections that have been idle for a long time.
const (
	FIN    Cut = "FIN"  // the server closes the connection
	RST    Cut = "RST"  // the server resets the connection
	Silent Cut = "none" // the client notices nothing until it writes, and then gets an RST, as behind a NAT gateway
)

// CutIdle waits until no call is in flight, ends all idle connections, and returns how many
// there were.
func (p *Proxy) CutIdle(ctx context.Context, cut Cut) (int, error) {
	for {
		idle, changed := p.idle()
		if changed == nil {
			for _, c := range idle {
				if err := cutConn(c, cut); err != nil {
					return 0, err
				}
			}
			return len(idle), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// idle returns all connections if all are idle. Otherwise it returns a channel that is closed
// when the state of a connection changes.
func (p *Proxy) idle() (conns []net.Conn, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, state := range p.conns {
		if state == http.StateActive {
			return nil, p.changed
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func (p *Proxy) connState(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.opened++
		p.conns[c] = state
	case http.StateActive, http.StateIdle:
		p.conns[c] = state
	case http.StateHijacked, http.StateClosed:
		delete(p.conns, c)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func cutConn(c net.Conn, cut Cut) error {
	tcp, ok := c.(*proxyConn)
	if !ok {
		tcp = c.(*tls.Conn).NetConn().(*proxyConn)
	}
	switch cut {
	case FIN:
		return c.Close() // with TLS, this also sends an alert
	case RST:
		return tcp.reset()
	case Silent:
		tcp.silent.Store(true)
		return nil
	}
	return errors.New("unknown cut " + string(cut))
}

type proxyListener struct{ net.Listener }

func (l proxyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxyConn{TCPConn: c.(*net.TCPConn)}, nil
}

type proxyConn struct {
	*net.TCPConn
	silent atomic.Bool // whether CutIdle cut the connection with Silent
}

func (c *proxyConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 && c.silent.Load() {
		return 0, errors.Join(net.ErrClosed, c.reset())
	}
	return n, err
}

// reset closes the connection with an RST.
func (c *proxyConn) reset() error {
	if err := c.SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}
