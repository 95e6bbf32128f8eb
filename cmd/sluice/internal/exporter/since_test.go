package exporter

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/journal"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/record"
)

// If stops is set, the service rejects the request for the second page.
func exportSince(t *testing.T, path string, from record.Time, includeDeleted, stops bool, now time.Time) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Sluice-Source", "service/default")
		w.Header().Set("Date", now.Format(http.TimeFormat))
		next := "null"
		switch second := r.URL.Query().Get("cursor") != ""; {
		case r.URL.Path == "/export_job", second && stops:
			w.WriteHeader(http.StatusForbidden)
			return
		case !second:
			next = `"second"`
		}
		fmt.Fprintf(w, `{"data":[],"next_cursor":%s,"synced_until":"2026-01-02T00:00:00Z"}`, next)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Config{MaxTries: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Order: api.ExportOrder{Resource: record.Entity}, Path: path, Now: func() time.Time { return now }, Waiting: func() string { return "" }}
	_, err = RunSince(t.Context(), o, from, includeDeleted, c, t.Output())
	return err
}

// Tombstones that an old export has not read may be gone by now.
func TestAnOldExportOfChangesIsNotContinued(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, includeDeleted := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "changes.ndjson")
			if err := exportSince(t, path, record.Time{}, includeDeleted, true, began); err == nil {
				t.Fatal("the first run was not stopped")
			}
			now := began.Add(29 * 24 * time.Hour)
			if late {
				now = now.Add(time.Millisecond)
			}
			err := exportSince(t, path, record.Time{}, includeDeleted, false, now)
			refused := new(journal.RefusedError)
			if old := includeDeleted && late; errors.As(err, &refused) != old || (err != nil) != old || old && !strings.Contains(err.Error(), "begun more than 29 days ago") {
				t.Errorf("tombstones %v, late %v: %v", includeDeleted, late, err)
			}
		}
	}
}
