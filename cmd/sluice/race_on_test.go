//go:build race

package main

// buildFlags are the flags with which the tests build the program, as they were built
// themselves.
var buildFlags = []string{"-race"}
