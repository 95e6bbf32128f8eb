package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"sluice/internal/test/secrettest"
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

func TestReadingCreatesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	s := openKeys(t, path)
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, access.ErrNotFound) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}

// A command can change keys while a server runs, because the server does not keep
// the file open.
func TestTwoStoresOfKeysShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	server, command := openKeys(t, path), openKeys(t, path)
	k, _ := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
	if err := command.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if got, err := server.Get(t.Context(), k.ID); err != nil || got.ID != k.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := command.Revoke(t.Context(), k.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, err := server.Get(t.Context(), k.ID); err != nil || got.RevokedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users may read the file: %v, %v", info.Mode(), err)
	}
}

func TestALockedFileOfKeysIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a temporary file
	if _, err := openKeys(t, path).Get(t.Context(), "a"); !errors.Is(err, bolterrors.ErrTimeout) {
		t.Error(err)
	}
}
