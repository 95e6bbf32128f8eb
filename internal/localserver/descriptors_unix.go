//go:build unix

package localserver

import "syscall"

// descriptors returns how many files the process may open. Go raises the soft limit to the hard
// limit when the process starts.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > maxConnections+otherFiles {
		return maxConnections + otherFiles
	}
	return int(limit.Cur)
}
