package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/audit"
)

// Access is sold in the same steps with commands and over HTTP: a plan, a key with it, another plan,
// and the end. The trail has each step, whoever made it, a backup has the trail, and nothing but the
// response to the creation has the secret.
func TestAccessIsSoldWithCommandsAndOverHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startIn(t, []string{"DATA_DIR=" + dir, "AUTH_MODE=api-key", "ADMIN_ROUTES=on", "LIMITS_MAX_AGE=1s"})
	c := s.client(t)
	command := func(args ...string) string {
		t.Helper()
		stdout, _ := wantRun(t, inEnv(t, s.env, append(args, "--json")...), 0, "", "")
		return stdout
	}
	operator := createKey(t, s.env, "--workspace", "ops", "--scope", "admin", "--scope", "operator", "--scope", "export")
	send := func(path, body string) string {
		t.Helper()
		method := "POST"
		if body == "" {
			method = "GET"
		}
		r := c.check(t, method, path, body, "Authorization", "Bearer "+operator, "Content-Type", "application/json")
		if r.status != http.StatusOK && r.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		return r.body
	}
	made := func(text string) access.Shown {
		t.Helper()
		var k access.Shown
		if err := json.Unmarshal([]byte(text), &k); err != nil || k.Key == "" {
			t.Fatalf("%s: %v", text, err)
		}
		secrettest.Keep(k.Key)
		return k
	}
	var shown strings.Builder
	see := func(text string) { shown.WriteString(text) }

	see(command("plans", "set", "pro", "--records", "70"))
	first := made(command("keys", "create", "--workspace", "acme", "--scope", "export", "--plan", "pro", "--name", "acme"))
	see(send("/set_limit", `{"plan":"max","records":90}`))
	second := made(send("/create_api_key", `{"workspace":"acme","scopes":["export"],"plan":"pro","name":"acme"}`))
	c.awaitLimit(t, first.Key, "70")
	c.awaitLimit(t, second.Key, "70")
	if second.MadeBy != idOf(operator) || first.MadeBy != "" || second.CountedAs != "" {
		t.Errorf("made %+v and %+v", first, second)
	}
	see(send("/set_api_key_plan", `{"id":"`+first.ID+`","plan":"max"}`))
	see(command("keys", "set-plan", second.ID, "max"))
	see(send("/api_key?workspace=acme", ""))
	see(send("/limit", ""))
	see(command("keys", "revoke", second.ID))
	see(send("/revoke_api_key", `{"id":"`+first.ID+`"}`))
	see(send("/remove_limit", `{"plan":"max"}`))
	see(command("plans", "remove", "pro"))

	if got := command("audit", "--by", "key:", "--of", "plan:", "--limit", "1"); strings.Count(got, `"at":`) != 1 || !strings.Contains(got, "remove-limit") {
		t.Errorf("the last change of a plan over HTTP: %s", got)
	}
	trail := command("audit")
	see(trail)
	see(send("/audit", ""))
	var all []audit.Record
	if err := json.Unmarshal([]byte(trail), &all); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, r := range all {
		steps = append(steps, fmt.Sprintf("%s %s %s", strings.Split(r.By, ":")[0], r.Action, r.Result))
	}
	want := "command remove-limit done|key remove-limit done|key revoke-api-key done|command revoke-api-key done|command set-api-key-plan done|key set-api-key-plan done|" +
		"key create-api-key done|key set-limit done|command create-api-key done|command set-limit done|command create-api-key done"
	if got := strings.Join(steps, "|"); got != want {
		t.Errorf("the trail has\n%s\nwant\n%s", got, want)
	}

	file := filepath.Join(t.TempDir(), "backup.zip")
	wantRun(t, inEnv(t, s.env, "backup", file), 0, "", "")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "audit.db") || !strings.Contains(string(text), `"remove-limit"`) {
		t.Errorf("the backup lacks the trail: %v", err)
	}
	secrettest.Check(t, "administration", shown.String())
	s.stop(t)
	secrettest.Check(t, "the server", s.Log())
	if text, err := os.ReadFile(filepath.Join(dir, "audit.db")); err != nil {
		t.Error(err)
	} else {
		secrettest.Check(t, "the audit trail", string(text))
	}
}
