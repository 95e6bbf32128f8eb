package bolt_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
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

func TestListAndRemoveCreateNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := openLimits(t, path)
	if rows, err := s.List(t.Context()); err != nil || len(rows) > 0 {
		t.Errorf("%v, %v", rows, err)
	}
	if err := s.Remove(t.Context(), netip.MustParsePrefix("10.0.0.0/8")); !errors.Is(err, ratelimit.ErrNoRow) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}

// A command can change rows while a server runs, because the server does not keep
// the file open.
func TestTwoStoresOfLimitsShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	server, command := openLimits(t, path), openLimits(t, path)
	r := ratelimit.Row{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Action: "block", UpdatedAt: time.Unix(1_800_000_000, 0).UTC()}
	if err := command.Put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if rows, err := server.List(t.Context()); err != nil || len(rows) != 1 || rows[0] != r {
		t.Errorf("%v, %v", rows, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users may read the file: %v, %v", info.Mode(), err)
	}
}

func TestALockedFileOfLimitsIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a temporary file
	if _, err := openLimits(t, path).List(t.Context()); !errors.Is(err, bolterrors.ErrTimeout) {
		t.Error(err)
	}
}
