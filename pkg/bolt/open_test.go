package bolt

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/entity"
)

// While a file is open, commits do not write the list of its free pages. It is there after Close, and
// otherwise found again.
func TestFreePagesAreListedOnlyInAClosedFile(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	open := func(dir string) *Stores {
		t.Helper()
		s, err := Open(dir, Config{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	listed := func() bool {
		t.Helper()
		file, err := os.Open(filepath.Join(dir, recordsFile))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close() //nolint:errcheck // only read
		m, ok := (&structure{file: file}).header()
		if !ok {
			t.Fatal("no header")
		}
		return m.freelist != noFreelist
	}
	s := open(dir)
	for _, id := range []string{"ada", "grace", "hedy"} {
		if _, _, err := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if listed() {
		t.Error("a commit writes the list of free pages")
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // as a process that is killed leaves it
		t.Fatal(err)
	}
	free := s.FreeBytes()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !listed() {
		t.Error("Close does not write the list of free pages")
	}
	for _, dir := range []string{dir, copied} {
		s := open(dir)
		if _, err := s.Entities.Get(t.Context(), "default", "ada"); err != nil {
			t.Error(err)
		}
		if n := s.FreeBytes(); n < free-4*os.Getpagesize() || n == 0 {
			t.Errorf("%d bytes are free, were %d", n, free)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
