package syncer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/record"
)

func TestAFileThatChangesDuringTheMergeIsKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		copied bool // whether an earlier run wrote the copy
		change func(t *testing.T, path string) error
	}{
		"appeared": {false, func(t *testing.T, path string) error { write(t, path, "mine\n"); return nil }},
		"appended": {true, func(t *testing.T, path string) error { write(t, path, read(t, path)+"mine\n"); return nil }},
		"same size": {true, func(t *testing.T, path string) error {
			write(t, path, strings.ToUpper(read(t, path)))
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Second))
		}},
		"replaced by a file of the same size and time": {true, func(t *testing.T, path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			next := path + ".edited"
			write(t, next, strings.ToUpper(read(t, path)))
			return errors.Join(os.Chtimes(next, info.ModTime(), info.ModTime()), os.Rename(next, path))
		}},
		"linked": {true, func(_ *testing.T, path string) error {
			return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
		}},
		"removed": {true, func(_ *testing.T, path string) error { return os.Remove(path) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newService(t), newCopy(t)
			if s.change(t, 50); tt.copied {
				s.wantCopy(t, record.Entity, path)
				s.change(t, 20)
			}
			run, _ := s.open(t, record.Entity, path)
			defer run.walk.Close() //nolint:errcheck // the test has ended
			if _, err := run.prepare(); err != nil {
				t.Fatal(err)
			}
			if err := run.walk.Read(t.Context(), run.lists(), run.Waiting, run.stderr); err != nil {
				t.Fatal(err)
			}
			merged, err := run.mergeChanges(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.change(t, path); err != nil {
				t.Fatal(err)
			}
			want, wantErr := os.ReadFile(path)
			err = run.replaceCopy(merged)
			if refused := new(journal.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), "has changed during this run") {
				t.Errorf("%v", err)
			}
			if got, err := os.ReadFile(path); string(got) != string(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("the file is now %.100q, %v", got, err)
			}
			if _, err := os.Stat(merged.path); err == nil {
				t.Error("the new copy still exists")
			}
		})
	}
}

func TestADanglingLinkIsNotReplaced(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	target := filepath.Join(t.TempDir(), "absent")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	for _, forced := range []bool{false, true} {
		_, _, err := s.sync(t, record.Entity, path, func(o *Options) { o.Force = forced })
		if refused := new(journal.RefusedError); !errors.As(err, &refused) || err.Error() != path+" is a symbolic link to a file that does not exist" {
			t.Errorf("forced %v: %v", forced, err)
		}
		if got, err := os.Readlink(path); got != target {
			t.Errorf("forced %v: the link is now %q, %v", forced, got, err)
		}
		wantFiles(t, path, "copy.ndjson")
	}
}

// A killed run may have left a temporary file with another mode.
func TestALeftoverFileDoesNotSetTheMode(t *testing.T) {
	t.Parallel()
	s, path := newService(t), newCopy(t)
	s.change(t, 20)
	left := path + ".sluice-sync.next"
	write(t, left, "left")
	if err := os.Chmod(left, 0o644); err != nil {
		t.Fatal(err)
	}
	s.wantCopy(t, record.Entity, path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", info, err)
	}
}
