package bolt_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

type opened struct {
	write, remove func(context.Context) error
	read          func(context.Context) (found bool, err error) // found is true between write and remove
}

func files(t *testing.T) map[string]func(path string) opened {
	k, _ := secrettest.New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
	row := ratelimit.Row{CIDR: netip.MustParsePrefix("10.0.0.0/8"), Action: "block", UpdatedAt: time.Unix(1_800_000_000, 0).UTC()}
	return map[string]func(string) opened{
		"keys": func(path string) opened {
			s := openKeys(t, path)
			return opened{
				write:  func(ctx context.Context) error { return s.Create(ctx, k) },
				remove: func(ctx context.Context) error { _, err := s.Revoke(ctx, k.ID, time.Now()); return err },
				read: func(ctx context.Context) (bool, error) {
					got, err := s.Get(ctx, k.ID)
					if errors.Is(err, access.ErrNotFound) {
						return false, nil
					}
					return got.ID == k.ID && got.RevokedAt.IsZero(), err
				},
			}
		},
		"limits": func(path string) opened {
			s := openLimits(t, path)
			return opened{
				write:  func(ctx context.Context) error { return s.Put(ctx, row) },
				remove: func(ctx context.Context) error { return s.Remove(ctx, row.Name()) },
				read: func(ctx context.Context) (bool, error) {
					rows, err := s.List(ctx)
					return len(rows) == 1 && rows[0] == row, err
				},
			}
		},
	}
}

// A process that was killed while creating the file leaves it empty.
func TestAFileOfZeroBytesIsEmpty(t *testing.T) {
	for name, open := range files(t) {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(path)
		if found, err := s.read(t.Context()); found || err != nil {
			t.Errorf("%s: found %t, %v", name, found, err)
		}
		if err := s.write(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if found, err := s.read(t.Context()); !found || err != nil {
			t.Errorf("%s: after a write: found %t, %v", name, found, err)
		}
	}
}

func TestOnlyAWriteCreatesAFile(t *testing.T) {
	for name, open := range files(t) {
		path := filepath.Join(t.TempDir(), name)
		s := open(path)
		if found, err := s.read(t.Context()); found || err != nil {
			t.Errorf("%s: read %v, error %v", name, found, err)
		}
		if err := s.remove(t.Context()); !errors.Is(err, access.ErrNotFound) && !errors.Is(err, ratelimit.ErrNoRow) {
			t.Errorf("%s: remove: %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the file: %v", name, err)
		}
	}
}

// The server closes the file after each operation.
func TestAServerAndACommandShareAFile(t *testing.T) {
	for name, open := range files(t) {
		path := filepath.Join(t.TempDir(), name)
		server, command := open(path), open(path)
		for i, change := range []func(context.Context) error{command.write, command.remove} {
			if err := change(t.Context()); err != nil {
				t.Fatal(err)
			}
			if found, err := server.read(t.Context()); found != (i == 0) || err != nil {
				t.Errorf("%s: change %d: read %v, error %v", name, i, found, err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: other users may read the file: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestALockedFileIsAnError(t *testing.T) {
	for name, open := range files(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			db, err := bbolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close() //nolint:errcheck // a temporary file
			if _, err := open(path).read(t.Context()); !errors.Is(err, bolterrors.ErrTimeout) {
				t.Error(err)
			}
		})
	}
}
