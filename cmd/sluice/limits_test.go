package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/override"
)

// limits runs `sluice limits`. env has additional environment variables ("NAME=value").
func limits(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"limits"}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), env...), t.TempDir()
	return run(t, cmd)
}

// Rows can be set, listed, checked and removed while a server runs, with either kind of
// store, and the server applies them.
func TestLimitsOfARunningServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "DynamoDB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"DATA_DIR=" + t.TempDir(), "LIMITS_MAX_AGE=1s"}
			var where []string
			if name == "DynamoDB" {
				where = []string{"--dynamodb", dynamolocal.Endpoint(t)}
				for _, table := range []string{"Counters", "Entities", "Events", "Keys", "Limits"} {
					env = append(env, strings.ToUpper(table)+"_TABLE="+dynamolocal.Table(t, table+"Table"))
				}
			}
			s := startIn(t, env, where...)
			c, other := s.client(t), s.client(t)
			do := func(want string, args ...string) {
				t.Helper()
				stdout, stderr, code := limits(t, env, append(args, where...)...)
				if code != 0 || !regexp.MustCompile(want).MatchString(stdout) {
					t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
				}
			}
			await := func(status int, limit string) {
				t.Helper()
				time.Sleep(time.Second) // a change must be in effect after LIMITS_MAX_AGE
				if r := c.check(t, "GET", "/entity", ""); r.status != status || r.header.Get("X-RateLimit-Limit") != limit {
					t.Errorf("%d with the limit %s, want %d with %s", r.status, r.header.Get("X-RateLimit-Limit"), status, limit)
				}
				if r := other.check(t, "GET", "/entity", ""); r.status != http.StatusOK || r.header.Get("X-RateLimit-Limit") != "200" {
					t.Errorf("another address: %d %v", r.status, r.header)
				}
			}
			await(http.StatusOK, "200")
			do(`^$`, "list")
			do(`no row applies`, "check", c.address)
			do(`^`+c.address+`/32: limit, records default, imports default, requests 30\. All instances apply it within 60 seconds\.\n$`, "set", c.address, "--requests", "30", "--note", "Ada's laptop")
			await(http.StatusOK, "30")
			do(`^CIDR +ACTION +RECORDS +IMPORTS +REQUESTS +UPDATED +EXPIRES +NOTE\n`+c.address+`/32 +limit +default +default +30 +\S+Z +never +Ada's laptop\n$`, "list")
			do(`"action": "block"`, "set", c.address, "--action", "block", "--expires-in", "1h", "--json")
			await(http.StatusForbidden, "200")
			do(`: block, expires: 20\S+Z\n$`, "check", c.address)
			do(`is removed`, "remove", c.address+"/32")
			await(http.StatusOK, "200")
			s.stop(t)
		})
	}
}

func TestLimitsAsJSON(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + filepath.Join(t.TempDir(), "new"), "CLIENT_IPV6_PREFIX=56"}
	read := func(v any, args ...string) {
		t.Helper()
		stdout, stderr, code := limits(t, env, append(args, "--json")...)
		if err := json.Unmarshal([]byte(stdout), v); code != 0 || err != nil {
			t.Fatalf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	var rows []override.Row
	if read(&rows, "list"); rows == nil || len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
	var set override.Row
	read(&set, "set", "2001:db8::/32", "--records", "1000000", "--imports", "900", "--action", "observe")
	read(&rows, "list")
	if len(rows) != 1 || rows[0] != set || set.Records != 1_000_000 || set.Imports != 900 || set.Requests != 0 || set.Action != "observe" || time.Since(set.UpdatedAt) > time.Minute {
		t.Errorf("set %+v, listed %+v", set, rows)
	}
	var checked checkJSON
	if read(&checked, "check", "2001:db8:1:2ff::1"); checked.Address != "2001:db8:1:200::/56" || checked.Row == nil || *checked.Row != set {
		t.Errorf("%+v", checked)
	}
	if read(&checked, "check", "192.0.2.1"); checked.Address != "192.0.2.1" || checked.Row != nil {
		t.Errorf("%+v", checked)
	}
	var removed struct{ CIDR string }
	if read(&removed, "remove", "2001:db8::/32"); removed.CIDR != "2001:db8::/32" {
		t.Errorf("%+v", removed)
	}
}

func TestLimitsWarnOfWhatOnePartitionMayNotCarry(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir()}
	for requests, warns := range map[int]bool{200: false, 201: true, 900: true} {
		stdout, stderr, code := limits(t, env, "set", "192.0.2.1", "--requests", fmt.Sprint(requests))
		if code != 0 || stdout == "" || strings.HasPrefix(stderr, "Warning: ") != warns || warns && !strings.Contains(stderr, "503") {
			t.Errorf("%d: exit code %d, %s%s", requests, code, stdout, stderr)
		}
	}
}

func TestLimitsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"set", "192.0.2.7/24"}, exitUsage, "use 192.0.2.0/24"},
		{[]string{"set", "2001:db8:1:2:3::/80"}, exitUsage, "use 2001:db8:1:2::/64"},
		{[]string{"set", "192.0.2.7", "--imports", "901"}, exitUsage, "above 900"},
		{[]string{"set", "192.0.2.7", "--records", "0"}, exitUsage, "--action block"},
		{[]string{"remove", "192.0.2.7"}, exitFailure, "\"sluice limits list\" shows the rows"},
		{[]string{"set", "192.0.2.7", "--dynamodb", "http://127.0.0.1:1"}, exitFailure, "127.0.0.1:1"},
	} {
		stdout, stderr, code := limits(t, []string{"DATA_DIR=" + dir}, tt.args...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) {
			t.Errorf("%v: exit code %d, %s%s", tt.args, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "limits.db")); err == nil {
		t.Error("a failed command created a file")
	}
}

// If only the name of a table is given, the AWS SDK configuration selects the endpoint.
func TestLimitsOfADeployedTable(t *testing.T) {
	t.Parallel()
	env := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL_DYNAMODB=" + dynamolocal.Endpoint(t)}
	table := []string{"--table", dynamolocal.Table(t, "LimitsTable")}
	if stdout, stderr, code := limits(t, env, append(table, "set", "192.0.2.0/24", "--action", "unlimited")...); code != 0 {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := limits(t, env, append(table, "check", "192.0.2.7")...); code != 0 || !strings.Contains(stdout, "192.0.2.0/24: unlimited") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}
