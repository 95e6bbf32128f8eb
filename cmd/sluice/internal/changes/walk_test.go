package changes

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

// After a permanent rejection, the hint says that the service must accept the request first.
func TestTheHintOfAStoppedWalk(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		301: "\nOnce the service accepts the request, the same command continues after 1 change",
		403: "\nOnce the service accepts the request, the same command continues after 1 change",
		501: "\nThe same command continues after 1 change",
	} {
		w, err := Open(filepath.Join(t.TempDir(), "walk"), journal.Task{Command: "sync", Work: "task"}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Begin(record.Time{}); err != nil {
			t.Fatal(err)
		}
		cursor := "next"
		list := func(_ context.Context, at Checkpoint) (Page, error) {
			if at.Cursor == cursor {
				return Page{}, &client.Error{Status: status}
			}
			return Page{Lines: []byte("{}\n"), Count: 1, Next: &cursor}, nil
		}
		err = w.Read(t.Context(), []List{list}, func() string { return "" }, io.Discard)
		if err = w.Stop(t.Context(), err); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
		if err := errors.Join(w.Remove(), w.Close()); err != nil {
			t.Error(err)
		}
	}
}
