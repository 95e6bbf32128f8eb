package bolt

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/job"
)

// openRecords opens the database at path. The result close is a function that closes the database.
// If the test does not call this function, the database is closed at the end of the test.
func openRecords(t *testing.T, path string) (w *workspaces, close func()) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	close = func() { _ = db.Close() }
	t.Cleanup(close)
	w, err = openWorkspaces(db, "records")
	if err != nil {
		t.Fatal(err)
	}
	return w, close
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "records.db") }

func TestRecordsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	w, close := openRecords(t, path)
	err := w.update(t.Context(), "create record", "default", func(b *bbolt.Bucket) error {
		_, _, err := createRecord(b, "a", "<record>")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	close()
	w, _ = openRecords(t, path)
	var got string
	err = w.view(t.Context(), "get record", "default", func(b *bbolt.Bucket) (err error) {
		got, err = decode[string](b.Get([]byte("a")))
		return err
	})
	if got != "<record>" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestAScanKeepsToItsBoundsInBothDirections(t *testing.T) {
	t.Parallel()
	w, _ := openRecords(t, newFile(t))
	bounds := []string{"", "a", "b", "c", "d", "e", "f", "g"}
	for _, keys := range [][]string{nil, {"b", "d", "f"}} {
		err := w.update(t.Context(), "fill", "default", func(b *bbolt.Bucket) error {
			for _, k := range keys {
				if _, _, err := createRecord(b, k, k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, low := range bounds {
			for _, high := range bounds {
				for _, ascending := range []bool{true, false} {
					var want, got []string
					for _, k := range keys {
						if k >= low && (high == "" || k <= high) {
							want = append(want, k)
						}
					}
					if !ascending {
						slices.Reverse(want)
					}
					err := w.view(t.Context(), "scan", "default", func(b *bbolt.Bucket) error {
						for k := range scan(b, low, high, ascending) {
							got = append(got, string(k))
						}
						return nil
					})
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("scan of %v from %q to %q, ascending %v: got %v, error %v, want %v", keys, low, high, ascending, got, err, want)
					}
				}
			}
		}
	}
	for k := range scan(nil, "", "", true) {
		t.Errorf("a nil bucket has the key %q", k)
	}
}

func TestAFailedUpdateIsRolledBack(t *testing.T) {
	t.Parallel()
	w, _ := openRecords(t, newFile(t))
	broken := errors.New("broken")
	err := w.update(t.Context(), "create record", "default", func(b *bbolt.Bucket) error {
		if _, _, err := createRecord(b, "a", "a"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	err = w.view(t.Context(), "get record", "default", func(b *bbolt.Bucket) error {
		t.Errorf("the workspace exists, with %q under a", b.Get([]byte("a")))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAValueThatIsNotARecordIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := decode[struct{ ID string }]([]byte("{")); err == nil {
		t.Error("no error")
	}
	if _, err := decode[struct{ ID string }](nil); err == nil {
		t.Error("no error for a nil value")
	}
}

func TestConstructorsRequireAFile(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"Entities": ignore(NewEntities(nil, entity.Clock{})),
		"Events":   ignore(NewEvents(nil, time.Now)),
		"Jobs":     ignore(NewJobs(nil, job.Kind{Name: "report"})),
		"Keys":     ignore(NewKeys("")),
		"Limits":   ignore(NewLimits("")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func ignore[S any](_ S, err error) error { return err }
