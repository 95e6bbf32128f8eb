package bolt

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// openWords opens the file at path, which stays open until close is called or the test ends.
func openWords(t *testing.T, path string) (words *table[string], close func()) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	close = func() { _ = db.Close() }
	t.Cleanup(close)
	words, err = openTable(db, "words", schema[string]{func(word string) string { return word }, text[string], func(string, string) []entry { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return words, close
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "records.db") }

func TestRecordsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	words, close := openWords(t, path)
	if err := words.update(t.Context(), "put", "default", func(all records[string]) error { return all.put("<word>") }); err != nil {
		t.Fatal(err)
	}
	close()
	words, _ = openWords(t, path)
	if got, err := words.get(t.Context(), "word", "default", "<word>"); got != "<word>" || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestAScanKeepsToItsBoundsInBothDirections(t *testing.T) {
	t.Parallel()
	words, _ := openWords(t, newFile(t))
	bounds := []string{"", "a", "b", "c", "d", "e", "f", "g"}
	for _, keys := range [][]string{nil, {"b", "d", "f"}} {
		err := words.update(t.Context(), "fill", "default", func(all records[string]) error {
			for _, k := range keys {
				if err := all.put(k); err != nil {
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
					err := words.view(t.Context(), "scan", "default", func(all records[string]) error {
						for k := range scan(all.index(byKey), low, high, ascending) {
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
	words, _ := openWords(t, newFile(t))
	broken := errors.New("broken")
	err := words.update(t.Context(), "put", "default", func(all records[string]) error {
		if err := all.put("a"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	err = words.view(t.Context(), "get", "default", func(all records[string]) error {
		if all.bucket != nil {
			t.Error("the workspace exists")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAValueThatIsNotARecordIsAnError(t *testing.T) {
	t.Parallel()
	events := &table[event.Event]{schema: schema[event.Event]{fields: eventFields}}
	e := event.Event{ID: "a", Name: "n", EntityID: "ada", Attributes: record.Attributes(`{"n":1}`), OccurredAt: record.TimeOf(time.UnixMilli(-1)), CreatedAt: record.TimeOf(time.UnixMilli(1)), ExpiresAt: record.TimeOf(time.UnixMilli(1 << 40))}
	value, err := events.encode(e)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := events.decode(value); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, error %v, want %+v", got, err, e)
	}
	for n := range value {
		if got, err := events.decode(value[:n]); err == nil {
			t.Errorf("%d of %d bytes: %+v", n, len(value), got)
		}
	}
	if got, err := events.decode(append(value, 0)); err == nil {
		t.Errorf("a byte more: %+v", got)
	}
	if got, err := decode[struct{ ID string }]([]byte("{")); err == nil {
		t.Errorf("not JSON: %+v", got)
	}
}

// A client should retry: the write can succeed when the disk has room again.
func TestAFullDiskIsUnavailable(t *testing.T) {
	t.Parallel()
	words, _ := openWords(t, newFile(t))
	err := words.update(t.Context(), "write", "default", func(records[string]) error {
		return &fs.PathError{Op: "write", Path: "sluice.db", Err: syscall.ENOSPC}
	})
	if record.KindOf(err) != record.Unavailable {
		t.Error(err)
	}
}

func TestConstructorsRequireAFile(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"Entities": ignore(NewEntities(nil, entity.Clock{}, nil)),
		"Events":   ignore(NewEvents(nil, time.Now)),
		"Jobs":     ignore(NewJobs(nil, job.Kind{Name: "report"})),
		"Keys":     ignore(NewKeys("")),
		"Limits":   ignore(NewLimits("")),
		"Indexes":  ignore(NewIndexes("")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func ignore[S any](_ S, err error) error { return err }
