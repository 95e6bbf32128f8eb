package storetest

import (
	"errors"
	"strings"
	"testing"

	"sluice/pkg/record"
)

// Cursors that no page of a list in order of position, or in order of id, can have.
var (
	notPositions = []record.Cursor{"x", "2026-01-02T12:00:00Z#a", "2026-01-02T12:00:00.000Z", "2026-01-02T12:00:00.000Z#", "2026-01-02T12:00:00.000Z#a b", "2026-01-02T12:00:00.000Z#\xff"}
	notIDs       = []record.Cursor{"a b", "é", "..", record.Cursor(strings.Repeat("x", record.MaxIDLength+1))}
)

func wantBadCursors(t *testing.T, cursors []record.Cursor, list func(record.Cursor) error) {
	t.Helper()
	for _, cursor := range cursors {
		if err := list(cursor); !errors.Is(err, record.ErrCursor) {
			t.Errorf("at %q: error %v, want %v", cursor, err, record.ErrCursor)
		}
	}
}
