package importer

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/pkg/importfile"
)

func TestSpoolLeavesNoFileBehindIfItFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	broken := errors.New("broken")
	if path, err := Spool(iotest.ErrReader(broken)); !errors.Is(err, broken) || path != "" {
		t.Errorf("%q, %v", path, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	path, err := Spool(strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestTheNameOfAnArchivedFileShowsItsDelimiter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "people.zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	w, err := archive.Create("people.tsv")
	if err == nil {
		_, err = w.Write([]byte("id\tb,c,d\na\tx,y,z\n"))
	}
	if err = errors.Join(err, archive.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if d, err := Complete(path, importfile.Description{Resource: "entity", Format: "csv"}); err != nil || d.Delimiter != "\t" {
		t.Errorf("%+v, %v; want a tab", d, err)
	}
}
