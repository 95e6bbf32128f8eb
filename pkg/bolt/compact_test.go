package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestCompactKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := filled(t, 150)
	path := filepath.Join(dir, recordsFile)
	want := content(t, path)
	c, err := Compact(t.Context(), dir)
	if err != nil || c.After >= c.Before || c.LostLast {
		t.Fatalf("%+v, error %v", c, err)
	}
	if content(t, path) != want {
		t.Error("the content has changed")
	}
	if r, err := Check(t.Context(), dir); err != nil || len(r.Problems) > 0 || r.Bytes != c.After {
		t.Errorf("%+v, error %v", r, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(at int) {
		t.Helper()
		b := append([]byte(nil), text...)
		clear(b[at*os.Getpagesize() : (at+1)*os.Getpagesize()])
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	first, ok := (&structure{file: file}).header()
	if err := file.Close(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	damage(int(first.root))
	if _, err := Compact(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "sluice check") {
		t.Errorf("a damaged file: %v", err)
	}
	damage(0)
	if c, err := Compact(t.Context(), dir); err != nil || !c.LostLast || content(t, path) != want {
		t.Errorf("a file with one of two first pages: %+v, error %v", c, err)
	}
	openDir(t, dir)
	if _, err := Compact(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory in use: %v", err)
	}
	stopped, stop := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	stop(cause)
	other := filled(t, 10)
	if _, err := Compact(stopped, other); err != nil && !errors.Is(err, cause) {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(other, "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A process that waits for the lock of a file must not get the one that has been replaced meanwhile.
func TestAReplacedFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.db")
	old, err := openBolt(path, &bbolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		opened <- updateFile(path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("new")); return err })
	}()
	waits := func() bool { // the other has opened the file, and polls for its lock
		links, err := filepath.Glob("/proc/self/fd/*")
		n := 0
		for _, link := range links {
			if to, _ := os.Readlink(link); to == path {
				n++
			}
		}
		return err != nil || len(links) == 0 || n >= 2
	}
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(500 * time.Millisecond); !waits() && time.Now().Before(deadline); {
		<-again.C
	}
	err = os.WriteFile(path+".tmp", nil, 0o600)
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err := errors.Join(err, old.Close(), <-opened); err != nil {
		t.Fatal(err)
	}
	err = viewFile(path, func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("new")) == nil {
			t.Error("the write went to the old file")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
