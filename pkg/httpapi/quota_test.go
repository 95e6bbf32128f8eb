package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/api"
	"sluice/pkg/ratelimit"
)

// withQuotas returns an API and a key whose plan has these quotas.
func withQuotas(t *testing.T, plan ratelimit.Row) (keyRows, string) {
	t.Helper()
	plan.Plan, plan.Action = "pro", "limit"
	store := rows{plan}
	g := withKeyRows(t, &store)
	return g, g.keyLike(t, access.Key{Workspace: "w", Plan: "pro", Scopes: access.Scopes()}, func(*access.Key) {})
}

func TestARefusalByAQuota(t *testing.T) {
	g, key := withQuotas(t, ratelimit.Row{Quotas: ratelimit.Quotas{RecordsPerMonth: 7, ImportsPerDay: 3}})
	for range 3 {
		if resp := g.invoke(t, "create-event", key, createEvent("192.0.2.1")); resp.StatusCode != 201 {
			t.Fatalf("%d %s", resp.StatusCode, resp.Body)
		}
	}
	day := ratelimit.Day.End(ratelimit.WindowAt(now()))
	month := ratelimit.Month.End(ratelimit.WindowAt(now()))
	ends := func(w ratelimit.Window) string { return time.Unix(int64(w), 0).UTC().Format(time.RFC3339) }
	seconds := func(w ratelimit.Window) string { return fmt.Sprint(min(86_400, int64(w)-now().Unix())) }
	list := lambdatest.Event("GET", "/event", "192.0.2.2", "")
	for _, tt := range []struct {
		name, function string
		status         int
		detail         string
		end            ratelimit.Window
		policy         string
	}{
		{"used up", "create-event", 429, "your quota of 3 imports per day is used up, with 0 left; wait until it ends at " + ends(day), day, "imports-day"},
		{"3 records", "list-event", 200, "", month, ""},
		{"3 more", "list-event", 200, "", month, ""},
		{"too many", "list-event", 429, "your quota of 7 records per month has 1 left, fewer than the request takes; ask for fewer, or wait until it ends at " + ends(month), month, "records-month"},
		{"unread", "list-event", 429, "your quota of 7 records per month has 1 left, fewer than the request takes; ask for fewer, or wait until it ends at " + ends(month), month, "records-month"},
	} {
		ev := list
		if tt.function == "create-event" {
			ev = createEvent("192.0.2.3")
		}
		g.log.Reset()
		resp := g.invoke(t, tt.function, key, ev)
		var p api.Problem
		if err := json.Unmarshal([]byte(resp.Body), &p); err != nil || resp.StatusCode != tt.status || p.Detail != tt.detail || strings.Join(p.ViolatedPolicies, ",") != tt.policy {
			t.Errorf("%s: %d %s", tt.name, resp.StatusCode, resp.Body)
		}
		if tt.status == 429 {
			if got := resp.Headers["Retry-After"] + " " + resp.Headers["X-RateLimit-Reset"]; got != seconds(tt.end)+" "+fmt.Sprint(int64(tt.end)) || resp.Headers["X-RateLimit-Remaining"] != "0" {
				t.Errorf("%s: %s, %v", tt.name, got, resp.Headers)
			}
			var line struct {
				Quota          string
				RefusedByQuota int
			}
			if err := json.Unmarshal(g.log.Bytes(), &line); err != nil || line.Quota != tt.policy || line.RefusedByQuota != 1 {
				t.Errorf("%s: %s", tt.name, g.log)
			}
		}
	}
}

func TestARequestThatFailsAfterItsChargeHasCounted(t *testing.T) {
	g, key := withQuotas(t, ratelimit.Row{Quotas: ratelimit.Quotas{ImportsPerDay: 2}})
	g.stores.Entities = failingStore{err: errors.New("the table is down")}
	for _, status := range []int{500, 500, 429} {
		if resp := g.invoke(t, "update-entity", key, lambdatest.Event("POST", "/update_entity", "192.0.2.1", `{"id":"a","attributes":{}}`)); resp.StatusCode != status {
			t.Errorf("%d %s, want %d", resp.StatusCode, resp.Body, status)
		}
	}
}

func TestUsageShowsQuotas(t *testing.T) {
	g, key := withQuotas(t, ratelimit.Row{Quotas: ratelimit.Quotas{RecordsPerDay: 10, RecordsPerMonth: 70, ImportsPerMonth: 3}})
	g.invoke(t, "create-event", key, createEvent("192.0.2.1"))
	resp := g.invoke(t, "usage", key, lambdatest.Event("GET", "/usage", "192.0.2.1", ""))
	var u struct{ Day, Month json.RawMessage }
	if err := json.Unmarshal([]byte(resp.Body), &u); err != nil {
		t.Fatal(err)
	}
	w := ratelimit.WindowAt(now())
	day := fmt.Sprintf(`{"start":%d,"records":0,"imports":1,"limits":{"records":10}}`, ratelimit.Day.Start(w))
	month := fmt.Sprintf(`{"start":%d,"records":0,"imports":1,"limits":{"records":70,"imports":3}}`, ratelimit.Month.Start(w))
	if string(u.Day) != day || string(u.Month) != month {
		t.Errorf("%s and %s, want %s and %s", u.Day, u.Month, day, month)
	}
}

// Export jobs are outside the quota of records.
func TestExportJobsOfAKeyWithAQuota(t *testing.T) {
	for _, tt := range []struct {
		plan   ratelimit.Row
		status int
		code   string
	}{
		{ratelimit.Row{Quotas: ratelimit.Quotas{RecordsPerMonth: 7}}, 403, "export_jobs_not_allowed"},
		{ratelimit.Row{Quotas: ratelimit.Quotas{RecordsPerDay: 7}}, 403, "export_jobs_not_allowed"},
		{ratelimit.Row{Quotas: ratelimit.Quotas{RecordsPerMonth: 7}, ExportJobs: true}, 201, ""},
		{ratelimit.Row{Quotas: ratelimit.Quotas{ImportsPerMonth: 7}}, 201, ""},
	} {
		g, key := withQuotas(t, tt.plan)
		ev := lambdatest.Event("POST", "/create_export_job", "192.0.2.1", `{"resource":"event","format":"csv"}`)
		if resp := g.invoke(t, "create-export-job", key, ev); resp.StatusCode != tt.status || code(t, resp) != tt.code {
			t.Errorf("%+v: %d %s", tt.plan, resp.StatusCode, resp.Body)
		}
	}
}
