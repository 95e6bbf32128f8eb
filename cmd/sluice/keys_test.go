package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

func createKey(t *testing.T, env []string, args ...string) string {
	t.Helper()
	stdout, _ := wantRun(t, inEnv(t, env, append([]string{"keys", "create"}, args...)...), 0, "slc_", "")
	secrettest.Keep(strings.TrimSpace(stdout))
	return strings.TrimSuffix(stdout, "\n")
}

func idOf(key string) string { return strings.Split(key, "_")[1] }

func TestKeysOfARunningServer(t *testing.T) {
	t.Parallel()
	onEachBackend(t, []string{"AUTH_MODE=api-key"}, func(t *testing.T, s *server) {
		c := s.client(t)
		want := func(status int, code, key, method, target, body string) {
			t.Helper()
			r := c.check(t, method, target, body, "Authorization", "Bearer "+key)
			if r.status != status || !strings.Contains(r.body, code) {
				t.Errorf("%s %s: %d %s, want %d %s", method, target, r.status, r.body, status, code)
			}
			checkLimitHeaders(t, r)
		}
		keys := func(stdout string, args ...string) string {
			t.Helper()
			out, _ := wantRun(t, inEnv(t, s.env, append(append([]string{"keys"}, args...), s.args...)...), 0, stdout, "")
			return out
		}
		if r := c.check(t, "GET", "/entity", ""); r.status != 401 || r.header.Get("WWW-Authenticate") != `Bearer realm="sluice"` {
			t.Errorf("without a key: %d %s %v", r.status, r.body, r.header)
		}
		both := createKey(t, s.env, append(s.args, "--scope", "import", "--scope", "export", "--name", "Ada's laptop")...)
		in := createKey(t, s.env, append(s.args, "--scope", "import", "--expires-in", "90d")...)
		other := createKey(t, s.env, append(s.args, "--scope", "export", "--workspace", "other", "--expires-in", "12h")...)
		want(201, "ada", in, "POST", "/create_entity", `{"id":"ada"}`)
		want(403, "missing_scope", in, "GET", "/entity/ada", "")
		want(200, "ada", both, "GET", "/entity/ada", "")
		want(404, "not_found", other, "GET", "/entity/ada", "")
		want(401, "invalid_key", both[:len(both)-1], "GET", "/entity/ada", "")
		here := createKey(t, s.env, append(s.args, "--scope", "export", "--from", c.address, "--from", "2001:db8::/32")...)
		elsewhere := createKey(t, s.env, append(s.args, "--scope", "export", "--from", "192.0.2.0/24")...)
		want(200, "ada", here, "GET", "/entity/ada", "")
		want(401, "invalid_key", elsewhere, "GET", "/entity/ada", "")
		want(200, "openapi", "x", "GET", "/openapi.yaml", "")

		stdout := keys("ID", "list")
		if lines := strings.Split(stdout, "\n"); len(lines) != 7 || !regexp.MustCompile(`^ID +STATUS +WORKSPACE +SCOPES +FROM +PLAN +MADE BY +CREATED +EXPIRES +NAME$`).MatchString(lines[0]) ||
			!regexp.MustCompile(`^`+idOf(both)+` +active +default +export,import +anywhere +none +- +\S+Z +never +Ada's laptop$`).MatchString(lines[1]) ||
			!regexp.MustCompile(`^`+idOf(other)+` +active +other +export +anywhere +none +- +\S+Z +\S+Z *$`).MatchString(lines[3]) ||
			!regexp.MustCompile(`^`+idOf(here)+` +active +default +export +`+c.address+`/32,2001:db8::/32 +`).MatchString(lines[4]) {
			t.Errorf("list: %s", stdout)
		}
		if stdout := keys("ID", "list", "--workspace", "other"); strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, idOf(other)) {
			t.Errorf("list: %s", stdout)
		}
		if stdout := keys("The key "+idOf(both)+" was revoked at ", "revoke", idOf(both)); !strings.Contains(stdout, "60 seconds") {
			t.Errorf("revoke: %s", stdout)
		}
		s.stop(t)

		s = startIn(t, s.env, s.args...)
		c = s.client(t)
		want(401, "invalid_key", both, "GET", "/entity/ada", "")
		want(201, "bob", in, "POST", "/create_entity", `{"id":"bob"}`)
		s.stop(t)
		if log := s.Log(); !strings.Contains(log, "access_refused=revoked") || !strings.Contains(log, "key_id="+idOf(both)) {
			t.Errorf("the log does not tell of the attempt with the revoked key: %s", log)
		}
	})
}

func TestKeysAsJSON(t *testing.T) {
	t.Parallel()
	env := []string{"DATA_DIR=" + filepath.Join(t.TempDir(), "new")}
	type shown struct {
		ID, Key, Name, Workspace, Status string
		Scopes                           []string
		CreatedAt                        time.Time  `json:"created_at"`
		ExpiresAt                        *time.Time `json:"expires_at"`
		RevokedAt                        *time.Time `json:"revoked_at"`
	}
	keys := func(v any, args ...string) (stdout string) {
		t.Helper()
		stdout, stderr := wantRun(t, inEnv(t, env, append(append([]string{"keys"}, args...), "--json")...), 0, "", "")
		if err := json.Unmarshal([]byte(stdout), v); err != nil || stderr != "" {
			t.Fatalf("%v: %s, %v", args, stderr, err)
		}
		return stdout
	}
	var made, revoked shown
	var listed []shown
	if keys(&listed, "list"); len(listed) != 0 {
		t.Errorf("a new directory has keys: %v", listed)
	}
	keys(&made, "create", "--scope", "dashboard,export", "--workspace", "w", "--expires-in", "1h")
	secrettest.Keep(made.Key)
	token, ok := access.ParseToken(made.Key)
	if !ok || token.ID != made.ID || made.Workspace != "w" || made.Status != "active" || strings.Join(made.Scopes, " ") != "dashboard export" || made.ExpiresAt == nil || made.ExpiresAt.Sub(made.CreatedAt).Round(time.Second) != time.Hour || made.RevokedAt != nil {
		t.Errorf("created %v", made.ID)
	}
	// "keys revoke" also accepts the complete API key.
	if keys(&revoked, "revoke", made.Key); revoked.ID != made.ID || revoked.Status != "revoked" || revoked.RevokedAt == nil || revoked.Key != "" {
		t.Errorf("revoked %v", revoked.ID)
	}
	if stdout := keys(&listed, "list"); len(listed) != 1 || listed[0].Status != "revoked" || strings.Contains(stdout, `"key"`) || strings.Contains(stdout, "hash") {
		t.Errorf("listed %s", stdout)
	}
}

// The error says why the store cannot be used, and the command creates no file.
func TestStoresThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	aws := awsEnv(t)
	for want, tt := range map[string]struct {
		env  []string
		args []string
	}{
		`there is no key "aaaaaaaaaaaa" in ` + dir:                        {nil, []string{"keys", "revoke", "aaaaaaaaaaaa"}},
		`"sluice limits list" shows the rows`:                             {nil, []string{"limits", "remove", "192.0.2.7"}},
		"set AWS_REGION":                                                  {[]string{"AWS_REGION=", "AWS_DEFAULT_REGION=", "AWS_CONFIG_FILE=/dev/null", "KEYS_TABLE=keys"}, []string{"keys", "list"}},
		"the keys in the table no-such-table in us-east-1 cannot be read": {aws, []string{"keys", "list", "--table", "no-such-table"}},
		"127.0.0.1:1": {nil, []string{"limits", "set", "192.0.2.7", "--records", "1", "--dynamodb", nowhere}},
	} {
		_, stderr := wantRun(t, inEnv(t, append([]string{"DATA_DIR=" + dir}, tt.env...), tt.args...), exitFailure, "", want)
		lines := strings.Split(stderr, "\n") // the AWS SDK may have written lines before the error
		if len(lines) < 2 || !strings.HasPrefix(lines[len(lines)-2], "sluice: ") {
			t.Errorf("%v: %s", tt.args, stderr)
		}
	}
	wantFiles(t, dir)
}

// awsEnv returns an environment in which the AWS SDK uses DynamoDB Local.
func awsEnv(t *testing.T) []string {
	t.Helper()
	return []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL_DYNAMODB=" + dynamolocal.Endpoint(t)}
}

// With a table name but no --dynamodb, a command uses the DynamoDB endpoint of the AWS
// configuration.
func TestDeployedTables(t *testing.T) {
	t.Parallel()
	env := append(awsEnv(t), "KEYS_TABLE="+dynamolocal.Table(t, "KeysTable"))
	key := createKey(t, env, "--scope", "import")
	if stdout, _ := wantRun(t, inEnv(t, env, "keys", "list"), 0, "ID", ""); !strings.Contains(stdout, idOf(key)) {
		t.Error(stdout)
	}
	table := dynamolocal.Table(t, "LimitsTable")
	wantRun(t, inEnv(t, env, "limits", "--table", table, "set", "192.0.2.0/24", "--action", "unlimited"), 0, "192.0.2.0/24: unlimited", "")
	wantRun(t, inEnv(t, env, "limits", "--table", table, "check", "192.0.2.7"), 0, "192.0.2.7: 192.0.2.0/24: unlimited", "")
}

func TestLifetimes(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now()
	if at, err := parseExpiry("", now); !at.IsZero() || err != nil {
		t.Errorf("no lifetime: %s, error %v; want none", at, err)
	}
	for text, want := range map[string]time.Duration{ // 0 stands for an error
		"1d": day, "90d": 90 * day, "36500d": 36500 * day, "1s": time.Second, "1h30m": 90 * time.Minute, "12h": 12 * time.Hour,
		"0d": 0, "36501d": 0, "876001h": 0, "-1d": 0, "0s": 0, "-1h": 0, "1.5d": 0, "d": 0, "1": 0, "1w": 0, "99999999999999999999d": 0,
	} {
		got, err := parseExpiry(text, now)
		if want > 0 && !got.Equal(now.Add(want)) || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, error %v; want %s from now", text, got, err, want)
		}
	}
}

// If API keys are off, a server on a loopback address accepts only requests for loopback names.
// Otherwise a malicious web page could read from the server after making its own host name
// resolve to 127.0.0.1 (DNS rebinding).
func TestServeSaysWhoMayUseIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const off, warning, how = "API keys are off: anyone who can reach this address can read and write", "can be reached from other machines, and API keys are off", "sluice keys create --data-dir "
	for _, tt := range []struct {
		name            string
		env             []string
		rebound         int // status if the request names the host rebound.example
		says, saysNever []string
	}{
		{"by default", nil, 403, []string{off}, []string{warning, how, "Authorization"}},
		{"keys off, set explicitly", []string{"AUTH_MODE=none"}, 403, []string{off}, []string{warning, how, "Authorization"}},
		{"keys off, every address", []string{"ADDR=0.0.0.0:0"}, 200, []string{off, warning}, []string{how}},
		{"keys off, every IPv6 address", []string{"ADDR=[::]:0"}, 200, []string{off, warning}, []string{how}},
		{"keys on", []string{"AUTH_MODE=api-key"}, 200, []string{"API keys are on", how + dir + " --scope import --scope export", `-H "Authorization: Bearer $KEY"`}, []string{off, warning}},
		{"keys on, every address", []string{"AUTH_MODE=api-key", "ADDR=0.0.0.0:0"}, 200, []string{"API keys are on", how}, []string{off, warning}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startIn(t, append([]string{"DATA_DIR=" + dir}, tt.env...))
			c := &caller{Client: http.DefaultClient, url: s.url}
			for host, want := range map[string]int{"rebound.example": tt.rebound, "localhost:3000": 200, s.url[len("http://"):]: 200} {
				if r := c.do(t, "GET", "/openapi.yaml", "", "Host", host); r.status != want {
					t.Errorf("host %s: %d, want %d", host, r.status, want)
				}
			}
			printed := s.stop(t)
			for _, text := range tt.says {
				if !strings.Contains(printed, text) {
					t.Errorf("the output does not contain %q: %s", text, printed)
				}
			}
			for _, text := range tt.saysNever {
				if strings.Contains(printed, text) {
					t.Errorf("the output contains %q: %s", text, printed)
				}
			}
		})
	}
}
