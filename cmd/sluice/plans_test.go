package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// awaitLimit waits until a key has a limit of records.
func (c *caller) awaitLimit(t *testing.T, key, limit string) {
	t.Helper()
	await(t, "the limit "+limit, func() bool {
		r := c.check(t, "GET", "/event", "", "Authorization", "Bearer "+key)
		return r.status == http.StatusOK && strings.HasPrefix(r.header.Get("RateLimit-Policy"), `"records";q=`+limit+";")
	})
}

func TestPlansOfARunningServer(t *testing.T) {
	t.Parallel()
	s := startIn(t, []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key", "LIMITS_MAX_AGE=1s"})
	c := s.client(t)
	run := func(code int, stdout, stderr string, args ...string) (out, err string) {
		t.Helper()
		return wantRun(t, inEnv(t, s.env, args...), code, stdout, stderr)
	}
	run(exitUsage, "", `there is no plan "pro"`, "keys", "create", "--scope", "export", "--plan", "pro")
	run(0, "plan:pro: limit, records 70, imports default, requests default. All instances apply it within 60 seconds.", "", "plans", "set", "pro", "--records", "70", "--note", "99 a month")
	key := createKey(t, s.env, "--scope", "export", "--plan", "pro")
	bare := createKey(t, s.env, "--scope", "export")
	c.awaitLimit(t, key, "70")
	c.awaitLimit(t, bare, "200")
	run(0, "ID", "", "keys", "list")
	if out, _ := run(0, "[", "", "keys", "list", "--json"); strings.Count(out, `"plan": "pro"`) != 1 || strings.Count(out, `"plan": ""`) != 1 {
		t.Errorf("%s", out)
	}
	var plans []planJSON
	if out, _ := run(0, "", "", "plans", "list", "--json"); json.Unmarshal([]byte(out), &plans) != nil || len(plans) != 1 || plans[0].Plan != "pro" || *plans[0].Keys != 1 || plans[0].Note != "99 a month" {
		t.Errorf("%s", out)
	}
	run(exitFailure, "", "1 keys have the plan pro, so it is not removed", "plans", "remove", "pro")
	run(0, "plan:pro: limit, records 80", "", "plans", "set", "pro", "--records", "80")
	c.awaitLimit(t, key, "80")
	run(0, "", "", "limits", "set", "key:"+idOf(key), "--records", "90")
	c.awaitLimit(t, key, "90")
	if out, _ := run(0, "127.0.0.9: key:", "", "limits", "check", "127.0.0.9", "key:"+idOf(key)); !strings.Contains(out, "127.0.0.9: plan:pro: limit, records 80") {
		t.Errorf("%s", out)
	}
	run(0, "ROW", "", "limits", "list")
	const quotas = "9000 records/day, 7 imports/month, export jobs"
	flags := []string{"--records-per-day", "9000", "--imports-per-month", "7", "--export-jobs"}
	run(0, "key:"+idOf(key)+": limit, records default, imports default, requests default, quotas: "+quotas+". All", "", append([]string{"limits", "set", "key:" + idOf(key)}, flags...)...)
	c.awaitLimit(t, key, `80;w=1, "requests";q=200;w=1, "records-day";q=9000`)
	run(0, "plan:pro: limit, records 80", "", append([]string{"plans", "set", "pro", "--records", "80"}, flags...)...)
	for _, list := range [][]string{{"limits", "list"}, {"plans", "list"}} {
		if out, _ := run(0, "", "", list...); !strings.Contains(out, "QUOTAS") || !strings.Contains(out, quotas) {
			t.Errorf("%s", out)
		}
		if out, _ := run(0, "", "", append(list, "--json")...); !strings.Contains(out, `"records_per_day": 9000`) || !strings.Contains(out, `"imports_per_month": 7`) || !strings.Contains(out, `"export_jobs": true`) {
			t.Errorf("%s", out)
		}
	}
	run(0, "", "", "limits", "remove", "key:"+idOf(key))
	c.awaitLimit(t, key, "80")
	run(0, "The key "+idOf(key)+" has the plan none.", "", "keys", "set-plan", idOf(key), "--none")
	run(exitUsage, "", "there is no plan", "keys", "set-plan", idOf(bare), "none")
	run(exitFailure, "", "there is no key", "keys", "set-plan", "aaaaaaaaaaaa", "pro")
	run(0, "The plan pro is removed.", "", "plans", "remove", "pro")
	run(exitFailure, "", "there is no plan pro", "plans", "remove", "pro")
	run(0, "", "There are no plans", "plans", "list")
	s.stop(t)
}

func TestPlansSayThatTheyNeedKeys(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir()}
	wantRun(t, inEnv(t, env, "plans", "set", "pro", "--records", "1"), 0, "plan:pro", "no effect while API keys are off")
	if _, stderr := wantRun(t, inEnv(t, append(env, "AUTH_MODE=api-key"), "plans", "set", "pro", "--records", "1"), 0, "plan:pro", ""); stderr != "" {
		t.Errorf("%s", stderr)
	}
	for args, says := range map[string]string{
		"set pro --records-per-day 0": "at least 1", "set pro --imports-per-month 1000000000001": "the quota of imports per month",
		"set pro": "would set nothing", "set Pro --records 1": "1 to 32 of the characters", "set pro --records 0": "at least 1", "set pro --imports 901": "above 900",
		"remove plan:pro": "1 to 32 of the characters",
	} {
		wantRun(t, inEnv(t, env, append([]string{"plans"}, strings.Fields(args)...)...), exitUsage, "", says)
	}
	wantRun(t, inEnv(t, env, "limits", "set", "192.0.2.0/24", "--imports-per-day", "1"), exitUsage, "", "only API keys and plans have quotas")
	wantRun(t, inEnv(t, env, "limits", "set", "plan:pro", "--records", "1"), exitUsage, "", `"sluice plans" manages plans`)
	wantRun(t, inEnv(t, []string{"LIMITS_TABLE=limits", "AWS_REGION=us-east-1"}, "plans", "remove", "pro"), exitUsage, "", "--keys-table")
}
