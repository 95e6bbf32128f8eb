//go:build !race

package main

// buildFlags build the program that the tests run as the tests are built.
var buildFlags []string
