//go:build unix

package bootstrap

import (
	"crypto/tls"
	"net"
	"syscall"
)

// closedByPeer reports whether the server has closed an idle HTTP/1.1 connection. It peeks
// at the data that the kernel has received for the connection. If the server has not closed
// the connection, there is no data. Otherwise there is a signal: an end of file, a reset or,
// with TLS, an alert. It is possible that net/http has not read this signal yet.
func closedByPeer(conn net.Conn) bool {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		// The descriptor is in non-blocking mode, like all descriptors of package
		// net.
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		open = err == syscall.EAGAIN
	})
	return err != nil || !open
}
