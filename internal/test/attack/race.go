//go:build race

package attack

// slack is for the race detector, with which a sync.Pool drops some of what it is given.
const slack = 4
