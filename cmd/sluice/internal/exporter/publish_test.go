package exporter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// On a file system with links, the complete file appears at the path in one step. Without links,
// moveNew still does not replace an existing file.
func TestMoveNew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		linkErr error
		there   string // content of an existing file at the path; "" if there is none
	}{
		"links": {}, "no links": {linkErr: errors.ErrUnsupported},
		"links, a file exists": {there: "mine"}, "no links, a file exists": {linkErr: errors.ErrUnsupported, there: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, path := filepath.Join(dir, "part"), filepath.Join(dir, "file")
			want := "complete"
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.there != "" {
				want = tt.there
				if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := moveNew(file, path, func(oldname, newname string) error {
				if _, err := os.Stat(newname); err == nil && tt.there == "" {
					t.Error("a file exists before the link")
				}
				if tt.linkErr != nil {
					return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: tt.linkErr}
				}
				return os.Link(oldname, newname)
			})
			if errors.Is(err, fs.ErrExist) != (tt.there != "") || err != nil && tt.there == "" {
				t.Errorf("%v", err)
			}
			if got, err := os.ReadFile(path); string(got) != want {
				t.Errorf("the file is %q, %v", got, err)
			}
			if _, err := os.Stat(file); (err == nil) != (tt.there != "") {
				t.Errorf("the source: %v", err)
			}
		})
	}
}

// Without Force, an export replaces nothing at its path, not even a dangling symbolic link.
func TestPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, path := filepath.Join(dir, "part"), filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, []byte("complete"), 0o600), os.Symlink("absent", path)); err != nil {
		t.Fatal(err)
	}
	ex := exporter{Options: Options{Path: path}}
	if err := ex.publish(file); err == nil || err.Error() != path+" appeared during the export; --force replaces it" {
		t.Errorf("%v", err)
	}
	ex.Force = true
	if err := ex.publish(file); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "complete" {
		t.Errorf("the file is %q, %v", got, err)
	}
}
