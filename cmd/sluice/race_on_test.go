//go:build race

package main

// buildFlags are the flags with which the tests build the program. The tests themselves are
// built with the same flags.
var buildFlags = []string{"-race"}
