package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scriptOf returns the commands of a section of a page, which are indented.
func scriptOf(t *testing.T, page, section string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var script strings.Builder
	for line := range strings.Lines(rest) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			script.WriteString(command)
		}
	}
	return script.String()
}

// The commands of the page "Sell access" do what it says.
func TestSellAccess(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("curl is missing")
		}
		t.Skip("SKIPPED: the commands of docs/sell-access.md need curl")
	}
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key", "ADMIN_ROUTES=on", "LIMITS_MAX_AGE=1s"})
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	lastMonth := time.Now().UTC().AddDate(0, 0, -31).Format("2006-01")
	sections := []struct {
		name     string
		contains map[string]int // how often
		after    string         // commands that wait until a change is in force
	}{
		{"Set a plan", map[string]int{"plan:trial: limit, records 50": 1, "3 imports/day": 1, "5000000 records/month": 1}, ""},
		{"Give a customer a key", nil, `until sluice usage --json --key "$KEY" | grep -q '"limits":{"imports":3}'; do :; done` + "\n"},
		{"See what the customer sees", map[string]int{"HTTP/1.1 201": 3, "HTTP/1.1 429": 1, `"violated-policies":["imports-day"]`: 1, "\nRetry-After: ": 1, "3 of 3": 1}, ""},
		{"Change the plan", map[string]int{"has the plan pro": 1, "\npro ": 1, "  acme  ": 1}, "until sluice usage --all-keys | grep -q ',0,3$'; do :; done\n"},
		{"Write the invoice", map[string]int{",acme,": 1, `,"ACME, contract 1042",pro,0,3`: 1}, "cat usage.csv october.csv\n"},
		{"End a contract", map[string]int{"was revoked at": 1}, ""},
		{"The same over HTTP", map[string]int{`"plan":"starter"`: 1, `"plan":"pro"`: 2, `"status":"revoked"`: 1, " revoke-api-key ": 2, " create-api-key ": 3, "command:": 6, " 127.0.0.1 ": 4}, ""},
	}
	script := "set -eu\n"
	for _, section := range sections {
		script += "echo '## " + section.name + "'\n" + strings.ReplaceAll(scriptOf(t, "sell-access.md", section.name), "2026-10", lastMonth) + section.after
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), append(s.env, "SLUICE_URL="+s.url, "PATH="+dir+":"+os.Getenv("PATH"))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for i, section := range sections {
		var printed string
		_, rest, _ = strings.Cut(rest, "## "+section.name+"\n")
		if printed = rest; i+1 < len(sections) {
			printed, _, _ = strings.Cut(rest, "## "+sections[i+1].name+"\n")
		}
		for text, want := range section.contains {
			if got := strings.Count(printed, text); got != want {
				t.Errorf("%s: %q is there %d times instead of %d:\n%s", section.name, text, got, want, printed)
			}
		}
	}
}
