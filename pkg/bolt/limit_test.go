package bolt_test

import (
	"path/filepath"
	"testing"

	"sluice/pkg/bolt"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func openLimits(t *testing.T, path string) *bolt.Limits {
	t.Helper()
	s, err := bolt.NewLimits(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLimits(t *testing.T) {
	storetest.Limits(t, func(t *testing.T) ratelimit.RowManager { return openLimits(t, filepath.Join(t.TempDir(), "limits.db")) })
}
