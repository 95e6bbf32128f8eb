package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
)

// keys runs `sluice keys`. env has additional environment variables ("NAME=value").
func keys(env []string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(program, append([]string{"keys"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var out, diagnostics bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	err = cmd.Run()
	// Only the standard output of create contains a secret.
	secrettest.Collect("sluice keys", diagnostics.String())
	if len(args) == 0 || args[0] != "create" {
		secrettest.Collect("sluice keys", out.String())
	}
	return out.String(), diagnostics.String(), err
}

// createKey creates an API key and returns it.
func createKey(t *testing.T, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, err := keys(env, append([]string{"create"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	secrettest.Keep(strings.TrimSpace(stdout))
	return strings.TrimSuffix(stdout, "\n")
}

func idOf(key string) string { return strings.Split(key, "_")[1] }

// API keys can be created, used, listed and revoked while a server runs, with either kind
// of store.
func TestKeysOfARunningServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"embedded", "DynamoDB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + t.TempDir()}
			var serveArgs, keyArgs []string
			if name == "DynamoDB" {
				serveArgs = []string{"--dynamodb", dynamolocal.Endpoint(t)}
				keyArgs = serveArgs
				for _, table := range []string{"Counters", "Entities", "Events", "Keys"} {
					env = append(env, strings.ToUpper(table)+"_TABLE="+dynamolocal.Table(t, table+"Table"))
				}
			}
			s := startIn(t, env, serveArgs...)
			c := s.client(t)
			want := func(status int, code, key, method, target, body string) {
				t.Helper()
				r := c.check(t, method, target, body, "Authorization", "Bearer "+key)
				if r.status != status || !strings.Contains(r.body, code) {
					t.Errorf("%s %s: %d %s, want %d %s", method, target, r.status, r.body, status, code)
				}
				checkLimitHeaders(t, r)
			}
			if r := c.check(t, "GET", "/entity", ""); r.status != 401 || r.header.Get("WWW-Authenticate") != `Bearer realm="sluice"` {
				t.Errorf("without a key: %d %s %v", r.status, r.body, r.header)
			}
			both := createKey(t, env, append(keyArgs, "--scope", "import", "--scope", "export", "--name", "Ada's laptop")...)
			in := createKey(t, env, append(keyArgs, "--scope", "import", "--expires-in", "90d")...)
			other := createKey(t, env, append(keyArgs, "--scope", "export", "--workspace", "other", "--expires-in", "12h")...)
			want(201, "ada", in, "POST", "/create_entity", `{"id":"ada"}`)
			want(403, "missing_scope", in, "GET", "/entity/ada", "")
			want(200, "ada", both, "GET", "/entity/ada", "")
			want(404, "not_found", other, "GET", "/entity/ada", "")
			want(401, "invalid_key", both[:len(both)-1], "GET", "/entity/ada", "")
			want(200, "openapi", "x", "GET", "/openapi.yaml", "")
			r := c.do(t, "GET", "/entity/ada", "", "Cookie", "sluice_session="+both)
			if r.status != 200 {
				t.Errorf("with the cookie: %d %s", r.status, r.body)
			}
			if r := c.do(t, "POST", "/delete_entity", `{"id":"ada"}`, "Cookie", "sluice_session="+both, "Origin", "http://example.net"); r.status != 403 {
				t.Errorf("with the cookie from elsewhere: %d %s", r.status, r.body)
			}
			if r := c.do(t, "POST", "/delete_entity", `{"id":"none"}`, "Cookie", "sluice_session="+both, "Origin", s.url); r.status != 200 {
				t.Errorf("with the cookie from here: %d %s", r.status, r.body)
			}

			stdout, _, err := keys(env, append(keyArgs, "list")...)
			lines := strings.Split(stdout, "\n")
			if err != nil || len(lines) != 5 || !regexp.MustCompile(`^ID +STATUS +WORKSPACE +SCOPES +CREATED +EXPIRES +NAME$`).MatchString(lines[0]) ||
				!regexp.MustCompile(`^`+idOf(both)+` +active +default +export,import +\S+Z +never +Ada's laptop$`).MatchString(lines[1]) ||
				!regexp.MustCompile(`^`+idOf(other)+` +active +other +export +\S+Z +\S+Z *$`).MatchString(lines[3]) {
				t.Errorf("%v:\n%s", err, stdout)
			}
			if stdout, _, err := keys(env, append(keyArgs, "list", "--workspace", "other")...); err != nil || strings.Count(stdout, "\n") != 2 || !strings.Contains(stdout, idOf(other)) {
				t.Errorf("%v:\n%s", err, stdout)
			}
			if stdout, _, err := keys(env, append(keyArgs, "revoke", idOf(both))...); err != nil || !strings.Contains(stdout, "The key "+idOf(both)+" was revoked at ") || !strings.Contains(stdout, "60 seconds") {
				t.Errorf("%v: %s", err, stdout)
			}
			s.stop(t)

			s = startIn(t, env, serveArgs...)
			c = s.client(t)
			want(401, "invalid_key", both, "GET", "/entity/ada", "")
			want(201, "bob", in, "POST", "/create_entity", `{"id":"bob"}`)
			s.stop(t)
			if log := s.Log(); !strings.Contains(log, "access_refused=revoked") || !strings.Contains(log, "key_id="+idOf(both)) {
				t.Errorf("the log does not report the request with the revoked key: %s", log)
			}
		})
	}
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
	var made, revoked shown
	var listed []shown
	for _, step := range []struct {
		args []string
		dst  any
	}{
		{[]string{"list", "--json"}, &listed},
		{[]string{"create", "--json", "--scope", "dashboard,export", "--workspace", "w", "--expires-in", "1h"}, &made},
	} {
		stdout, stderr, err := keys(env, step.args...)
		if err != nil || stderr != "" {
			t.Fatalf("%v: %s", err, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), step.dst); err != nil {
			t.Fatal(err)
		}
	}
	secrettest.Keep(made.Key)
	token, ok := access.ParseToken(made.Key)
	if !ok || token.ID != made.ID || made.Workspace != "w" || made.Status != "active" || strings.Join(made.Scopes, " ") != "dashboard export" || made.ExpiresAt == nil || made.ExpiresAt.Sub(made.CreatedAt).Round(time.Second) != time.Hour || made.RevokedAt != nil {
		t.Errorf("created %v", made.ID)
	}
	if len(listed) != 0 {
		t.Errorf("a new directory has keys: %v", listed)
	}
	// revoke also accepts the complete API key.
	stdout, _, err := keys(env, "revoke", "--json", made.Key)
	if err != nil || json.Unmarshal([]byte(stdout), &revoked) != nil || revoked.ID != made.ID || revoked.Status != "revoked" || revoked.RevokedAt == nil || revoked.Key != "" {
		t.Errorf("%v: %s", err, stdout)
	}
	stdout, _, err = keys(env, "list", "--json")
	if err != nil || json.Unmarshal([]byte(stdout), &listed) != nil || len(listed) != 1 || listed[0].Status != "revoked" || strings.Contains(stdout, `"key"`) || strings.Contains(stdout, "hash") {
		t.Errorf("%v: %s", err, stdout)
	}
}

func TestKeysSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"no scope", nil, []string{"create"}, "a key needs a scope: import, export or dashboard"},
		{"an unknown scope", nil, []string{"create", "--scope", "admin"}, `there is no scope "admin"`},
		{"a bad workspace", nil, []string{"create", "--scope", "import", "--workspace", "a b"}, "1 to 64 of the characters"},
		{"a bad lifetime", nil, []string{"create", "--scope", "import", "--expires-in", "soon"}, "such as 30m, 12h or 90d"},
		{"no id", nil, []string{"revoke"}, "give the id of one key"},
		{"an unknown id", nil, []string{"revoke", "aaaaaaaaaaaa"}, `there is no key "aaaaaaaaaaaa" in ` + dir},
		{"a mangled key", nil, []string{"revoke", "slc_aaaaaaaaaaaa_aaaa"}, "not the id of a key"},
		{"an argument too many", nil, []string{"list", "now"}, "unknown command"},
		{"two places", nil, []string{"list", "--data-dir", dir, "--dynamodb", "http://127.0.0.1:9"}, "use --data-dir, or --dynamodb and --table"},
		{"no region", []string{"AWS_REGION=", "AWS_DEFAULT_REGION=", "AWS_CONFIG_FILE=/dev/null", "KEYS_TABLE=keys"}, []string{"list"}, "set AWS_REGION"},
		{"no such table", []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL_DYNAMODB=" + dynamolocal.Endpoint(t)}, []string{"list", "--table", "no-such-table"}, "the keys in the table no-such-table in us-east-1 cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr, err := keys(append([]string{"DATA_DIR=" + dir}, tt.env...), tt.args...)
			lines := strings.Split(stderr, "\n") // the SDK may have written lines before it
			if err == nil || len(lines) < 2 || !strings.HasPrefix(lines[len(lines)-2], "sluice: ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("error %v, output %s; want %q", err, stderr, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "keys.db")); err == nil {
		t.Error("a failed command created a file")
	}
}

// If only the name of a table is given, the AWS SDK configuration selects the endpoint.
func TestKeysOfADeployedTable(t *testing.T) {
	t.Parallel()
	env := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL_DYNAMODB=" + dynamolocal.Endpoint(t), "KEYS_TABLE=" + dynamolocal.Table(t, "KeysTable")}
	key := createKey(t, env, "--scope", "import")
	if stdout, stderr, err := keys(env, "list"); err != nil || !strings.Contains(stdout, idOf(key)) {
		t.Errorf("%v: %s%s", err, stdout, stderr)
	}
}

func TestLifetimes(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{ // 0 means an error
		"1d": day, "90d": 90 * day, "36500d": 36500 * day, "1s": time.Second, "1h30m": 90 * time.Minute, "12h": 12 * time.Hour,
		"0d": 0, "36501d": 0, "876001h": 0, "-1d": 0, "0s": 0, "-1h": 0, "1.5d": 0, "d": 0, "1": 0, "1w": 0, "99999999999999999999d": 0,
	} {
		got, err := parseLifetime(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, error %v; want %s", text, got, err, want)
		}
	}
}

// serve prints whether API keys are on and warns if others can reach it without a key.
func TestServeSaysWhoMayUseIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const off, warning, how = "API keys are off: anyone who can reach this address can read and write", "can be reached from other machines, and API keys are off", "sluice keys create --data-dir "
	for _, tt := range []struct {
		name            string
		env             []string
		says, saysNever []string
	}{
		{"by default", nil, []string{off}, []string{warning, how, "Authorization"}},
		{"keys off explicitly", []string{"AUTH_MODE=none"}, []string{off}, []string{warning, how, "Authorization"}},
		{"keys off on every address", []string{"ADDR=0.0.0.0:0"}, []string{off, warning}, []string{how}},
		{"keys off on every IPv6 address", []string{"ADDR=[::]:0"}, []string{off, warning}, []string{how}},
		{"keys on", []string{"AUTH_MODE=api-key"}, []string{"API keys are on", how + dir + " --scope import --scope export", `-H "Authorization: Bearer $KEY"`}, []string{off, warning}},
		{"keys on on every address", []string{"AUTH_MODE=api-key", "ADDR=0.0.0.0:0"}, []string{"API keys are on", how}, []string{off, warning}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startIn(t, append([]string{"DATA_DIR=" + dir}, tt.env...))
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

// The command that serve prints creates an API key that serve accepts.
func TestThePrintedCommandMakesAKey(t *testing.T) {
	t.Parallel()
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + t.TempDir()}
	s := startIn(t, env)
	arguments, err := s.ReadyText(t.Context(), `KEY=\$\(sluice keys create (.*)\)`)
	if err != nil {
		t.Fatal(err)
	}
	key := createKey(t, nil, strings.Fields(arguments)...)
	c := s.client(t)
	if r := c.check(t, "POST", "/create_entity", `{"id":"ada"}`, "Authorization", "Bearer "+key); r.status != http.StatusCreated {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := c.check(t, "GET", "/entity/ada", "", "Authorization", "bearer  "+key); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	s.stop(t)
}
