// Package repository_test tests the repository as a whole. template.yaml, the functions, the
// sample events, the documentation and the settings must agree. Every alarm must watch a
// metric that exists, and the alarms that roll a deployment back must fire and recover.
// Imports between packages must follow the rules of mayImport.
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
