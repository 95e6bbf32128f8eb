package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/ratelimit"
)

func runLimits(t *testing.T, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	return wantRun(t, inEnv(t, env, append([]string{"limits"}, args...)...), 0, "", "")
}

func TestLimitsOfARunningServer(t *testing.T) {
	t.Parallel()
	onEachBackend(t, []string{"LIMITS_MAX_AGE=1s"}, func(t *testing.T, s *server) {
		c, other := s.client(t), s.client(t)
		do := func(want string, args ...string) {
			t.Helper()
			if stdout, stderr := runLimits(t, s.env, append(args, s.args...)...); !regexp.MustCompile(want).MatchString(stdout) {
				t.Errorf("%v: %s%s", args, stdout, stderr)
			}
		}
		await := func(status int, limit string) {
			t.Helper()
			again := time.NewTicker(100 * time.Millisecond)
			defer again.Stop()
			for tries := 1; ; tries++ { // repeat until the server has reread the rows
				r := c.check(t, "GET", "/entity", "")
				if r.status == status && r.header.Get("X-RateLimit-Limit") == limit {
					break
				}
				if tries == 100 {
					t.Fatalf("%d with the limit %s, want %d with %s", r.status, r.header.Get("X-RateLimit-Limit"), status, limit)
				}
				<-again.C
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
		do(`^ROW +ACTION +RECORDS +IMPORTS +REQUESTS +QUOTAS +UPDATED +EXPIRES +NOTE\n`+c.address+`/32 +limit +default +default +30 +\S+Z +never +Ada's laptop\n$`, "list")
		do(`"action": "block"`, "set", c.address, "--action", "block", "--expires-in", "1h", "--json")
		await(http.StatusForbidden, "200")
		do(`: block, expires: 20\S+Z\n$`, "check", c.address)
		do(`is removed`, "remove", c.address+"/32")
		await(http.StatusOK, "200")
	})
}

func TestLimitsAsJSON(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + filepath.Join(t.TempDir(), "new"), "CLIENT_IPV6_PREFIX=56"}
	read := func(v any, args ...string) {
		t.Helper()
		stdout, stderr := runLimits(t, env, append(args, "--json")...)
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			t.Fatalf("%v: %s%s", args, stdout, stderr)
		}
	}
	var rows []ratelimit.Row
	if read(&rows, "list"); rows == nil || len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
	var set ratelimit.Row
	read(&set, "set", "2001:db8::/32", "--records", "1000000", "--imports", "900", "--action", "observe")
	read(&rows, "list")
	if len(rows) != 1 || rows[0] != set || set.Records != 1_000_000 || set.Imports != 900 || set.Requests != 0 || set.Action != "observe" || time.Since(set.UpdatedAt) > time.Minute {
		t.Errorf("set %+v, listed %+v", set, rows)
	}
	var checked checkJSON
	if read(&checked, "check", "2001:db8:1:2ff::1"); checked.Address != "2001:db8:1:200::/56" || len(checked.Rows) != 1 || checked.Rows[0] != set {
		t.Errorf("%+v", checked)
	}
	if read(&checked, "check", "192.0.2.1"); checked.Address != "192.0.2.1" || len(checked.Rows) > 0 {
		t.Errorf("%+v", checked)
	}
	var removed struct{ CIDR string }
	if read(&removed, "remove", "2001:db8::/32"); removed.CIDR != "2001:db8::/32" {
		t.Errorf("%+v", removed)
	}
}

func TestSetWarnsIfTheLimitsCanOverloadAPartition(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir()}
	for requests, warns := range map[int]bool{200: false, 201: true, 900: true} {
		stdout, stderr := runLimits(t, env, "set", "192.0.2.1", "--requests", fmt.Sprint(requests))
		if stdout == "" || strings.HasPrefix(stderr, "Warning: ") != warns || warns && !strings.Contains(stderr, "503") {
			t.Errorf("%d: %s%s", requests, stdout, stderr)
		}
	}
}

// The invalid row is one that somebody might enter in the AWS console.
func TestListNamesARowThatIsNotValid(t *testing.T) {
	t.Parallel()
	table := dynamolocal.Table(t, "LimitsTable")
	env := append(awsEnv(t), "LIMITS_TABLE="+table)
	runLimits(t, env, "set", "198.51.100.7", "--action", "block")
	_, err := dynamolocal.Client(t).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		"cidr": &types.AttributeValueMemberS{Value: "192.0.2.0/24"}, "action": &types.AttributeValueMemberS{Value: "Block"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr := runLimits(t, env, "list"); !strings.Contains(stdout, "198.51.100.7/32") || strings.Contains(stdout, "192.0.2.0") || !strings.Contains(stderr, `row "192.0.2.0/24"`) {
		t.Errorf("%s%s", stdout, stderr)
	}
	wantRun(t, inEnv(t, env, "limits", "check", "198.51.100.7"), 0, "198.51.100.7: 198.51.100.7/32: block", "")
	runLimits(t, env, "set", "192.0.2.0/24", "--action", "block")
	if stdout, stderr := runLimits(t, env, "list"); !strings.Contains(stdout, "192.0.2.0/24") || stderr != "" {
		t.Errorf("after the row was replaced: %s%s", stdout, stderr)
	}
}
