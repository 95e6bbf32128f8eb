// Package repository_test contains tests of the repository as a whole: that template.yaml,
// the functions, the sample events, the documentation and the settings agree, that every
// alarm fires and recovers, and which package imports which.
package repository_test

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
