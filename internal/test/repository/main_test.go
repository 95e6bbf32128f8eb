// Package repository_test tests the repository as a whole. template.yaml, the functions, the
// sample events and the settings must agree. Permissions must suffice and be narrow. Every alarm
// must watch a metric that exists, and the alarms that roll a deployment back must fire and
// recover. Imports between packages must follow the rules of mayImport.
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

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
