package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"sluice/pkg/client"
)

// What a key has used in a day and a month survives a stop exactly. After kill -9, what was reserved
// ahead counts as used: up to 1,000.
func TestSumsSurviveRestarts(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	wantRun(t, inEnv(t, env, "plans", "set", "pro", "--imports", "900", "--requests", "900"), 0, "plan:pro", "")
	key := createKey(t, env, "--scope", "import", "--scope", "dashboard", "--plan", "pro")
	use := func(s *server, imports int) (u client.Usage) {
		t.Helper()
		c := s.client(t)
		for range imports {
			if r := c.check(t, "POST", "/create_event", `{"name":"n"}`, "Authorization", "Bearer "+key); r.status != 201 {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		r := c.check(t, "GET", "/usage", "", "Authorization", "Bearer "+key)
		if err := json.Unmarshal([]byte(r.body), &u); err != nil || u.Day == nil || u.Month == nil || u.Day.Imports > u.Month.Imports {
			t.Fatalf("%d %s, %v", r.status, r.body, err)
		}
		return u
	}
	s := startIn(t, env)
	if u := use(s, 7); u.Month.Imports != 7 {
		t.Errorf("%+v", u.Month)
	}
	s.stop(t)
	s = startIn(t, env)
	if u := use(s, 3); u.Month.Imports != 10 {
		t.Errorf("after a stop: %+v", u.Month)
	}
	s.Kill()
	s = startIn(t, env)
	if u := use(s, 1); u.Month.Imports < 11 || u.Month.Imports > 11+1000 {
		t.Errorf("after kill -9: %+v", u.Month)
	}
}

// After kill -9 the rest of a block of a hundredth counts as used, so nothing is admitted twice.
func TestAQuotaSurvivesKills(t *testing.T) {
	t.Parallel()
	const quota, kills = 300, 3
	env := []string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key"}
	wantRun(t, inEnv(t, env, "plans", "set", "pro", "--imports", "900", "--requests", "900", "--imports-per-month", strconv.Itoa(quota)), 0, "plan:pro", "")
	key := createKey(t, env, "--scope", "import", "--scope", "dashboard", "--plan", "pro")
	admitted := 0
	for n := range kills + 1 {
		s := startIn(t, env)
		c := s.client(t)
		for range 50 + n*quota {
			r := c.check(t, "POST", "/create_event", `{"name":"n"}`, "Authorization", "Bearer "+key)
			if r.status == 429 && strings.Contains(r.body, "your quota of 300 imports per month is used up") {
				break
			}
			if r.status == 201 {
				admitted++
			} else if r.status != 429 { // of the second
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		if n < kills {
			s.Kill()
			continue
		}
		var u client.Usage
		if r := c.check(t, "GET", "/usage", "", "Authorization", "Bearer "+key); json.Unmarshal([]byte(r.body), &u) != nil || u.Month.Imports != quota || u.Month.Limits.Imports != quota || u.Day.Limits.Imports != 0 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if admitted > quota || admitted < quota-kills*quota/100 {
		t.Errorf("%d admitted of %d, with %d kills", admitted, quota, kills)
	}
}
