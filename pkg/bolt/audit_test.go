package bolt_test

import (
	"path/filepath"
	"testing"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/bolt"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openAudit(t *testing.T) *bolt.Audit {
	t.Helper()
	s, err := bolt.NewAudit(filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAudit(t *testing.T) {
	storetest.Audit(t, func(t *testing.T) audit.Store { return openAudit(t) })
}

func TestAuditRecordsAreKeptForAYear(t *testing.T) {
	s, now := openAudit(t), time.Now()
	for i, at := range []time.Time{now.Add(-audit.Keep), now.Add(-audit.Keep + time.Second), now} {
		if err := s.Put(t.Context(), audit.Record{ID: string(rune('a' + i)), At: record.TimeOf(at)}); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := s.List(t.Context(), audit.Query{All: true, Limit: 10}); err != nil || len(page.Records) != 2 {
		t.Errorf("%+v, error %v", page.Records, err)
	}
}
