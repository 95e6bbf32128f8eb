//go:build !race

package attack

const slack = 1
