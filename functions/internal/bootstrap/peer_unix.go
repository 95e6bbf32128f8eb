//go:build unix

package bootstrap

import (
	"crypto/tls"
	"net"
	"syscall"
)

// closedByPeer reports whether the server has closed an idle HTTP/1.1 connection. It peeks at
// what the kernel has received: nothing if the connection is open, and otherwise an end of
// file, a reset or, with TLS, an alert that net/http may not have read yet.
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
		// Recvfrom does not block, because descriptors of package net are in non-blocking mode.
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		open = err == syscall.EAGAIN
	})
	return err != nil || !open
}
