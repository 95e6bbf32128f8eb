//go:build !unix

package bootstrap

import "net"

// closedByPeer is false, because it cannot peek at a socket here. Lambda runs Linux.
func closedByPeer(net.Conn) bool { return false }
