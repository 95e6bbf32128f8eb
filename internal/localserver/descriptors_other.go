//go:build !unix

package localserver

// descriptors returns a number that every such system allows.
func descriptors() int { return maxConnections + otherFiles }
