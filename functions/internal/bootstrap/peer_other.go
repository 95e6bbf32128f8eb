//go:build !unix

package bootstrap

import "net"

// closedByPeer returns false, because it cannot peek at a socket on this system. Lambda runs
// Linux.
func closedByPeer(net.Conn) bool { return false }
