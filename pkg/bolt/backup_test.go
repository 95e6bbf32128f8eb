package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/pkg/access"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// openDir opens a data directory until the end of the test.
func openDir(t *testing.T, dir string) *Stores {
	t.Helper()
	s, err := Open(dir, Config{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // a temporary directory
	return s
}

func createEntity(t *testing.T, s *Stores, id string) {
	t.Helper()
	d := entity.Draft{ID: id, Type: "person", Attributes: record.Attributes(`{"email":"` + id + `@example.com"}`)}
	if _, _, err := entity.Create(t.Context(), s.Entities, "default", d); err != nil {
		t.Error(err)
	}
}

// backUp makes a backup of stores that are in use.
func backUp(t *testing.T, s *Stores) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup.zip")
	if _, err := WriteBackup(path, func(w io.Writer) error { return s.Backup(t.Context(), w, "") }); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABackupHasAllWritesOfOneMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openDir(t, dir)
	if err := s.Keys.Create(t.Context(), access.Key{ID: "abc"}); err != nil {
		t.Fatal(err)
	}
	const writers, before, during = 4, 50, 50
	var early, late sync.WaitGroup
	early.Add(writers)
	for w := range writers {
		late.Go(func() {
			for n := range before + during {
				createEntity(t, s, fmt.Sprintf("%d-%d", w, n))
				if n == before-1 {
					early.Done()
				}
			}
		})
	}
	early.Wait()
	path := backUp(t, s)
	late.Wait()
	restored := filepath.Join(t.TempDir(), "new")
	r, err := Restore(t.Context(), path, restored)
	if err != nil || r.Keys != 1 || r.Entities < writers*before || r.Entities > writers*(before+during) {
		t.Fatalf("restored %+v, error %v", r, err)
	}
	again := openDir(t, restored)
	if again.ServiceID == s.ServiceID {
		t.Error("copies cannot tell the restored service from the other one")
	}
	for w := range writers {
		for n := range before {
			if _, err := again.Entities.Get(t.Context(), "default", fmt.Sprintf("%d-%d", w, n)); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := WriteBackup(path, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the same name again: %v", err)
	}
	if _, err := Restore(t.Context(), path, restored); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("the same directory again: %v", err)
	}
}

func TestABackupOfADirectoryThatNoServerUses(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "backup.zip")
	offline := func() error {
		_, err := WriteBackup(path, func(w io.Writer) error { return Backup(t.Context(), dir, w) })
		return err
	}
	if err := offline(); err == nil || !strings.Contains(err.Error(), "is not the data directory of a server") {
		t.Errorf("an empty directory: %v", err)
	}
	s := openDir(t, dir)
	createEntity(t, s, "ada")
	if err := os.MkdirAll(filepath.Join(dir, ExportsDir, "default"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]bool{"entity-1.csv.gz": true, "entity-2.csv.gz.123": false} {
		if err := os.WriteFile(filepath.Join(dir, ExportsDir, "default", name), []byte(name), 0o600); err != nil {
			t.Fatal(name, kept, err)
		}
	}
	if err := offline(); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory in use: %v", err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := offline(); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	if r, err := Restore(t.Context(), path, restored); err != nil || r.Entities != 1 {
		t.Errorf("restored %+v, error %v", r, err)
	}
	exports, err := filepath.Glob(filepath.Join(restored, ExportsDir, "*/*"))
	if err != nil || len(exports) != 1 || filepath.Base(exports[0]) != "entity-1.csv.gz" {
		t.Errorf("restored %v, error %v", exports, err)
	}
}

func TestADamagedBackupIsNotRestored(t *testing.T) {
	t.Parallel()
	s := openDir(t, t.TempDir())
	createEntity(t, s, "ada")
	path := backUp(t, s)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(change func(b []byte) []byte) {
		t.Helper()
		file, dir := filepath.Join(t.TempDir(), "damaged.zip"), t.TempDir()
		if err := os.WriteFile(file, change(append([]byte(nil), whole...)), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Restore(t.Context(), file, dir)
		if err == nil {
			t.Errorf("restored %+v", r)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	for n := 0; n < len(whole); n += len(whole)/20 + 1 {
		damaged(func(b []byte) []byte { return b[:n] })
	}
	at := strings.Index(string(whole), "ada@example.com")
	damaged(func(b []byte) []byte { b[at] ^= 1; return b })
	stopped, stop := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	stop(cause)
	if _, err := Restore(stopped, path, filepath.Join(t.TempDir(), "new")); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}
