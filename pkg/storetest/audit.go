package storetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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
		{"a list has only what begins as the query says", testAuditFilters},
		{"a page ends after a megabyte that is not selected", testAuditPassed},
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
		q.Limit = 2
		if got := listAudit(t, s, q); !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: got %+v, want %+v", name, got, want[name])
		}
	}
}

// listAudit returns the records of all pages.
func listAudit(t *testing.T, s audit.Store, q audit.Query) (got []audit.Record) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), q)
		if err != nil || len(page.Records) > q.Limit {
			t.Fatalf("%+v: %d records, error %v", q, len(page.Records), err)
		}
		got = append(got, page.Records...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return got
		}
	}
}

func testAuditFilters(t *testing.T, s audit.Store) {
	var all []audit.Record
	for n := range 8 {
		r := auditRecord(n, []string{"a", ""}[n/4])
		r.By = []string{"key:7m3kq2xw9abc", "command:ada"}[n%2]
		r.Of = []string{"plan:pro", "key:7m3kq2xw9abc", "plan:profi", "index:person.größe"}[n%4]
		putAudit(t, s, r)
		all = append(all, r)
	}
	for _, tt := range []struct {
		q    audit.Query
		want []int
	}{
		{audit.Query{All: true, By: "command:"}, []int{7, 5, 3, 1}},
		{audit.Query{All: true, Of: "plan:"}, []int{6, 4, 2, 0}},
		{audit.Query{All: true, Of: "plan:profi"}, []int{6, 2}},
		{audit.Query{All: true, Of: "index:person.größ"}, []int{7, 3}},
		{audit.Query{All: true, By: "key:7m3kq2xw9abc", Of: "plan:pro"}, []int{6, 4, 2, 0}},
		{audit.Query{All: true, By: "key:7m3kq2xw9abc", Of: "key:"}, nil},
		{audit.Query{All: true, Of: "lan:"}, nil},
		{audit.Query{Workspace: "a", Of: "plan:"}, []int{2, 0}},
		{audit.Query{By: "command:ada"}, []int{7, 5}},
	} {
		var want []audit.Record
		for _, n := range tt.want {
			want = append(want, all[n])
		}
		tt.q.Limit = 1
		if got := listAudit(t, s, tt.q); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %+v, want %+v", tt.q, got, want)
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

func testAuditPassed(t *testing.T, s audit.Store) {
	want := auditRecord(0, "a")
	putAudit(t, s, want)
	for n := range 5 {
		r := auditRecord(1+n, "a")
		r.By, r.New = "command:ada", json.RawMessage(`"`+strings.Repeat("x", 300_000)+`"`)
		putAudit(t, s, r)
	}
	q := audit.Query{Workspace: "a", By: "key:", Limit: 1}
	if page, err := s.List(t.Context(), q); err != nil || len(page.Records) > 0 || page.Next == "" {
		t.Errorf("the first page has %d records and the cursor %q, error %v", len(page.Records), page.Next, err)
	}
	if got := listAudit(t, s, q); !reflect.DeepEqual(got, []audit.Record{want}) {
		t.Errorf("got %+v", got)
	}
}
