package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// addresses are how many source addresses the connections come from.
const addresses = 16

// load is a client of one server: connections that each send one request after
// the other. It does no more than HTTP needs, since it runs beside the server.
type load struct {
	conns []*connection
}

// connection is kept alive.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

// dial opens connections to address.
func dial(address string, connections int) (*load, error) {
	l := &load{}
	for i := range connections {
		source := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%addresses))}
		conn, err := (&net.Dialer{LocalAddr: source, Timeout: 10 * time.Second}).Dial("tcp", address)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("dial from %s: %w", source.IP, err)
		}
		l.conns = append(l.conns, &connection{Conn: conn, reader: bufio.NewReaderSize(conn, 4<<10)})
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		c.Close() //nolint:errcheck // nothing was left unread
	}
}

// run is what became of a number of requests.
type run struct {
	perSecond float64
	p50, p99  time.Duration
}

// send sends the same request n times over all connections, and expects the
// status of each answer.
func (l *load) send(request []byte, status string, n int) (run, error) {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	took := make([][]time.Duration, len(l.conns))
	errs := make([]error, len(l.conns))
	begin := time.Now()
	for i, c := range l.conns {
		took[i] = make([]time.Duration, 0, 2*n/len(l.conns))
		wg.Go(func() {
			for last := begin; left.Add(-1) >= 0 && errs[i] == nil; {
				errs[i] = c.exchange(request, status)
				now := time.Now()
				took[i] = append(took[i], now.Sub(last))
				last = now
			}
		})
	}
	wg.Wait()
	all := time.Since(begin)
	for _, err := range errs {
		if err != nil {
			return run{}, err
		}
	}
	sorted := slices.Concat(took...)
	slices.Sort(sorted)
	return run{perSecond: float64(n) / all.Seconds(), p50: sorted[len(sorted)/2], p99: sorted[len(sorted)*99/100]}, nil
}

// exchange sends a request and reads its answer, which must have the status and
// a Content-Length.
func (c *connection) exchange(request []byte, status string) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	length, first := -1, ""
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read header: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if first == "" {
			if first = "-"; !bytes.HasPrefix(line, []byte("HTTP/1.1 "+status)) {
				first = string(line)
			}
		}
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("%s: an answer without a length", first)
	}
	if first != "-" {
		body, _ := io.ReadAll(io.LimitReader(c.reader, int64(length)))
		return fmt.Errorf("%s, not %s: %s", first, status, body)
	}
	_, err := c.reader.Discard(length)
	return err
}
