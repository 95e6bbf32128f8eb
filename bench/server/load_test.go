package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// connections is how many connections a benchmark uses by default. Each connection has its own
// source address, so that no address reaches the limit of 900 requests per second.
const connections = 64

// load is loadOver with the default number of connections.
func load(b *testing.B, server *process, request func() []byte) (perSecond float64) {
	return loadOver(b, connections, server, request)
}

// loadOver sends b.N requests over persistent connections, one at a time on each, and returns
// how many were served per second. The client runs on the same machine as the server, so it
// does as little as HTTP allows. cpu-ns/op is the server's processor time. Of all metrics, it
// depends least on what else is running on the machine.
func loadOver(b *testing.B, connections int, server *process, request func() []byte) (perSecond float64) {
	each := max(1, connections/runtime.GOMAXPROCS(0))
	all := make(chan *connection, min(connections, each*runtime.GOMAXPROCS(0)))
	for n := range cap(all) {
		c := dial(b, server.address, n)
		defer c.Close() //nolint:errcheck // all responses have been read
		all <- c
	}
	b.SetParallelism(each)
	used := server.cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c := <-all
		defer func() { all <- c }()
		for pb.Next() {
			if _, err := c.exchange(request()); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	used = server.cpu(b) - used
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
	perSecond = float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(perSecond, "req/s")
	return perSecond
}

type connection struct {
	net.Conn
	reader *bufio.Reader
	body   bytes.Buffer // of the last response
}

// dial connects from the nth source address.
func dial(b *testing.B, server string, n int) *connection {
	b.Helper()
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n%connections))}
	conn, err := (&net.Dialer{LocalAddr: local, Timeout: 10 * time.Second}).Dial("tcp", server)
	if err != nil {
		b.Fatal(err)
	}
	return &connection{Conn: conn, reader: bufio.NewReader(conn)}
}

// exchange returns the length of the response's body. A status other than 2xx is an error.
func (c *connection) exchange(request []byte) (length int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	status, err := c.line()
	if err != nil {
		return 0, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 2"))
	problem := string(status)
	chunked := false
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
		chunked = chunked || bytes.Equal(line, []byte("Transfer-Encoding: chunked"))
	}
	c.body.Reset()
	if chunked {
		err = c.readChunks()
	} else {
		_, err = io.CopyN(&c.body, c.reader, int64(length))
	}
	if err == nil && !ok {
		err = fmt.Errorf("status line %q: %.300s", problem, c.body.String())
	}
	return c.body.Len(), err
}

func (c *connection) readChunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(&c.body, c.reader, size); err != nil {
			return err
		}
		if _, err := c.line(); err != nil || size == 0 {
			return err
		}
	}
}

// line reads the status line or a header line. The bytes are valid until the next call.
func (c *connection) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}
