package boltrecord_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// If the build of an index is interrupted, the next build continues where it stopped.
// Each record is indexed once.
func TestAnInterruptedBuildOfAnIndexContinues(t *testing.T) {
	t.Parallel()
	const count = 25_000
	path := newFile(t)
	w, close := open(t, path)
	for _, workspace := range []string{"a", "a.b", "b"} {
		err := w.Update(t.Context(), "fill", workspace, func(b *bbolt.Bucket) error {
			for i := range count {
				if err := b.Put(fmt.Appendf(nil, "%05d", i), fmt.Appendf(nil, "%s\x00%05d", workspace, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var committed, pending []string
	interrupted := errors.New("interrupted")
	for stop := 12_345; ; stop += 20_000 {
		n := 0
		pending = nil
		err := w.BuildIndex("index", func(b *bbolt.Bucket, workspace string, value []byte) error {
			if n++; n > stop {
				return interrupted
			}
			pending = append(pending, string(value))
			return nil
		})
		if err == nil {
			committed = append(committed, pending...)
			break
		}
		if !errors.Is(err, interrupted) {
			t.Fatal(err)
		}
		committed = append(committed, pending[:len(pending)/10_000*10_000]...) // only whole transactions are committed
		close()
		w, close = open(t, path)
	}
	if len(committed) != 3*count || !slices.IsSorted(committed) || len(slices.Compact(committed)) != 3*count {
		t.Errorf("%d records were indexed, want each of %d once, in order", len(committed), 3*count)
	}
	err := w.BuildIndex("index", func(*bbolt.Bucket, string, []byte) error {
		return errors.New("the index is already built")
	})
	if err != nil {
		t.Error(err)
	}
}
