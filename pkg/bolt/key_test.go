package bolt_test

import (
	"path/filepath"
	"testing"

	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/storetest"
)

func openKeys(t *testing.T, path string) *bolt.Keys {
	t.Helper()
	s, err := bolt.NewKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeys(t *testing.T) {
	storetest.Keys(t, func(t *testing.T) access.Manager { return openKeys(t, filepath.Join(t.TempDir(), "keys.db")) })
}
