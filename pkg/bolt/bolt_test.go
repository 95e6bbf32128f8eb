package bolt

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/event"
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
	words, err = openTable(db, "words", schema[string]{key: func(word string) string { return word }, fields: text[string], entries: func(string, string) []entry { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return words, close
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "records.db") }

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
	if record.CodeOf(err) != record.Unavailable {
		t.Error(err)
	}
}
