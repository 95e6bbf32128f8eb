package main

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/dynamo"
	"sluice/pkg/ratelimit"
)

// monthOf returns the records and imports of a key in the output of "usage --all-keys".
func monthOf(t *testing.T, output, key string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[2] == idOf(key) {
			return strings.Join(row[3:], " ")
		}
	}
	t.Fatalf("no row of %s in %s", idOf(key), output)
	return ""
}

func TestUsageOfAllKeys(t *testing.T) {
	t.Parallel()
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"})
	c := s.client(t)
	wantRun(t, inEnv(t, s.env, "plans", "set", "pro", "--records", "70"), 0, "plan:pro", "")
	acme := createKey(t, s.env, "--scope", "import", "--scope", "export", "--plan", "pro", "--workspace", "acme", "--name", `ACME, "Inc"`)
	bare := createKey(t, s.env, "--scope", "import")
	for i := range 3 {
		c.check(t, http.MethodPost, "/create_event", fmt.Sprintf(`{"id":"e%d","name":"n"}`, i), "Authorization", "Bearer "+acme)
		c.check(t, http.MethodPost, "/create_event", fmt.Sprintf(`{"id":"f%d","name":"n"}`, i), "Authorization", "Bearer "+bare)
	}
	c.check(t, http.MethodGet, "/event?limit=2", "", "Authorization", "Bearer "+acme)
	s.stop(t)

	out, _ := wantRun(t, inEnv(t, s.env, "usage", "--all-keys"), 0, "month,workspace,key_id,name,plan,records,imports\n"+time.Now().UTC().Format("2006-01")+",acme,", "")
	if got, want := monthOf(t, out, acme), `ACME, "Inc" pro 2 3`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := monthOf(t, out, bare), "  0 0"; got != want { // counted by its address
		t.Errorf("%q, want %q", got, want)
	}
	wantRun(t, inEnv(t, s.env, "usage", "--all-keys", "--json"), 0, "[\n  {\n    \"month\": ", "")
	before := time.Now().UTC().AddDate(0, -2, 0).Format("2006-01")
	wantRun(t, inEnv(t, s.env, "usage", "--all-keys", "--month", before), 0, "month,", "There were no API keys in "+before)
	for _, tt := range []struct{ month, says string }{
		{"2026", "write year and month"}, {"2999-01", "has not begun"}, {"2020-01", "kept for 13 months"},
	} {
		wantRun(t, inEnv(t, s.env, "usage", "--all-keys", "--month", tt.month), exitUsage, "", tt.says)
	}
	wantRun(t, inEnv(t, s.env, "usage", "--month", before), exitUsage, "", "--month needs --all-keys")
	wantRun(t, inEnv(t, s.env, "usage", "--all-keys", "--of", "192.0.2.1"), exitUsage, "", "exclude each other")
	wantRun(t, inEnv(t, []string{"COUNTERS_TABLE=c", "AWS_REGION=us-east-1"}, "usage", "--all-keys"), exitUsage, "", "--keys-table")
}

func TestUsageOfAllKeysOfADeployment(t *testing.T) {
	t.Parallel()
	counters, keys := dynamolocal.Table(t, "CountersTable"), dynamolocal.Table(t, "KeysTable")
	key := createKey(t, append(awsEnv(t), "KEYS_TABLE="+keys), "--scope", "export", "--plan", "pro", "--limits-table", "")
	store, err := dynamo.NewCounters(dynamolocal.Client(t), counters)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ratelimit.New(store, ratelimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	subject := ratelimit.Subject{Identity: ratelimit.KeyIdentity(idOf(key)), Limits: ratelimit.Limits{Records: 200, Imports: 200, Requests: 200}}
	for range 2 {
		d, err := l.Charge(t.Context(), ratelimit.Request{Route: ratelimit.Route{Name: "list-event", Class: ratelimit.Export}, Subject: subject, Records: 7})
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	out, _ := wantRun(t, inEnv(t, awsEnv(t), "usage", "--all-keys", "--table", counters, "--keys-table", keys), 0, "month,", "")
	if got := monthOf(t, out, key); got != " pro 14 0" {
		t.Errorf("%q, want 14 records", got)
	}
}
