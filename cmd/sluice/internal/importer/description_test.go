package importer

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"
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
