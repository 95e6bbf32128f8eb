package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/record"
)

func auditRecord(n int, workspace string) audit.Record {
	at := time.Now().UTC().Add(time.Duration(n) * time.Second)
	return audit.Record{
		ID: fmt.Sprintf("0193%04d-0000-7000-8000-000000000000", n), At: record.TimeOf(at), Workspace: workspace, By: "key:7m3kq2xw9abc", From: "192.0.2.1",
		Action: "set-limit", Of: "plan:pro", Old: json.RawMessage("null"), New: json.RawMessage(`{"records":1}`), Result: audit.Intended,
	}
}

// Audit tests an audit.Store. open returns a Store without records.
func Audit(t *testing.T, open func(t *testing.T) audit.Store) {
	runAll(t, open, []test[audit.Store]{
		{"a list has the records of a workspace, newest first, page by page", testAuditPages},
		{"a put replaces the record", testAuditReplace},
	})
}

func putAudit(t *testing.T, s audit.Store, records ...audit.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func testAuditPages(t *testing.T, s audit.Store) {
	want := make(map[string][]audit.Record)
	for n := range 9 {
		r := auditRecord(n, []string{"a", "b", ""}[n%3])
		putAudit(t, s, r)
		want["of "+r.Workspace] = append([]audit.Record{r}, want["of "+r.Workspace]...)
		want["all"] = append([]audit.Record{r}, want["all"]...)
	}
	for name, q := range map[string]audit.Query{"of a": {Workspace: "a"}, "of b": {Workspace: "b"}, "of ": {}, "all": {All: true}, "of none": {Workspace: "none"}} {
		var got []audit.Record
		q.Limit = 2
		for {
			page, err := s.List(t.Context(), q)
			if err != nil || len(page.Records) > 2 {
				t.Fatalf("%s: %d records, error %v", name, len(page.Records), err)
			}
			got = append(got, page.Records...)
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: got %+v, want %+v", name, got, want[name])
		}
	}
}

func testAuditReplace(t *testing.T, s audit.Store) {
	r := auditRecord(1, "a")
	putAudit(t, s, r)
	r.Result, r.Error = audit.Failed, "no"
	putAudit(t, s, r)
	if page, err := s.List(t.Context(), audit.Query{Workspace: "a", Limit: 10}); err != nil || len(page.Records) != 1 || !reflect.DeepEqual(page.Records[0], r) {
		t.Errorf("got %+v, error %v", page.Records, err)
	}
}
