package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/client"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// declarations returns what "sluice indexes list" prints.
func (s *server) declarations(t *testing.T) (all []index.Declaration) {
	t.Helper()
	out, _ := wantRun(t, inEnv(t, s.env, "indexes", "list", "--json"), 0, "", "")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The server indexes entities that exist and entities created later. After an index is removed,
// searches by its attribute fail.
func TestIndexesOfARunningServer(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	c := s.client(t)
	create := func(id, attributes string) {
		t.Helper()
		c.want(t, http.StatusCreated, "POST", "/create_entity", fmt.Sprintf(`{"id":%q,"type":"person","attributes":%s}`, id, attributes))
	}
	find := func(code int, want string, args ...string) {
		t.Helper()
		out, diagnostics, got := run(t, sluiceCommand(t, s.url, append([]string{"find", "person"}, args...)...))
		var ids []string
		for _, m := range regexp.MustCompile(`"id":"([^"]*)"`).FindAllStringSubmatch(out, -1) {
			ids = append(ids, m[1])
		}
		if got != code || strings.Join(ids, " ") != want && !strings.Contains(diagnostics, want) {
			t.Errorf("find %q: exit code %d, %q %s; want %d %s", args, got, ids, diagnostics, code, want)
		}
	}
	create("ada", `{"email":"ada@example.com","born":1815}`)
	create("odd", `{"email":7}`)
	find(1, `the attribute "email" of the type "person" is not indexed`, "email", "ada@example.com")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "--fold"), 0, "", "does the rest while it runs")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "born", "--number"), 0, "", "does the rest while it runs")
	await(t, "ready", func() bool {
		return !slices.ContainsFunc(s.declarations(t), func(d index.Declaration) bool { return d.State != index.Ready })
	})
	create("grace", `{"email":"grace@example.com","born":1906}`)
	find(0, "ada", "email", "ada@example.com")
	if out, _ := wantRun(t, sluiceCommand(t, s.url, "find", "person", "email", "ada@example.com"), 0, "{", ""); !strings.Contains(out, `"revision":1,`) {
		t.Error(out)
	}
	find(0, "grace ada", "born", "--gte", "1800", "--desc")
	find(0, "grace", "email", "--prefix", "GRACE@")
	_, served := wantRun(t, sluiceCommand(t, s.url, "find", "person", "email", "--gte", "a", "--limit", "1"), 0, `{"id":"ada"`, "1 entity, by the index on email (text, regardless of case). For more, add --cursor ")
	wantRun(t, sluiceCommand(t, s.url, "find", "person", "email", "--gte", "a", "--cursor", strings.TrimSpace(served[strings.LastIndex(served, " "):])), 0, `{"id":"grace"`, "1 entity, ")
	for limit, want := range map[string]string{"1": `^1 "[^"]+" email true$`, "9": `^2 null email true$`} {
		out, _ := wantRun(t, sluiceCommand(t, s.url, "find", "person", "email", "--gte", "a", "--json", "--limit", limit), 0, "", "")
		var page client.Page[entity.Entity]
		if err := json.Unmarshal([]byte(out), &page); err != nil {
			t.Fatal(err)
		}
		next, _ := json.Marshal(page.NextCursor)
		if got := fmt.Sprintf("%d %s %s %v", len(page.Data), next, page.Index.Attributes[0].Name, page.Index.Attributes[0].Fold); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("--limit %s: %s", limit, out)
		}
	}
	find(0, "No entity matches", "email", "nobody@example.com")
	find(2, "give a value", "email")
	for _, args := range [][]string{{"indexes", "list"}, {"indexes", "list", "--workspace", "default"}} {
		if out, _ := wantRun(t, inEnv(t, s.env, args...), 0, "WORKSPACE", ""); !strings.Contains(out, "email (text, regardless of case)  1      ready  100 %  1        0       1\n") {
			t.Error(out)
		}
	}
	wantRun(t, inEnv(t, s.env, "indexes", "list", "--workspace", "other"), 0, "", "No attribute is indexed")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email:fold"), 0, "The index of person.email is ready", "")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "--number"), 1, "", "already an index of person.email, as email (text, regardless of case)")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "c"), 0, "", "")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email", "born:number"), 0, "", "")
	await(t, "ready", func() bool { return s.declarations(t)[3].State == index.Ready })
	find(0, "ada", "born", "--gte", "1800", "--where", "email=ada@example.com")
	find(0, "No entity matches", "born", "--lt", "1800", "--where", "email=ada@example.com")
	find(2, "--where must be", "born", "--lt", "1800", "--where", "email")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "e"), 1, "", "a type can have 4 indexes")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "born[gte]"), 2, "", "must not end in [gte]")
	wantRun(t, inEnv(t, s.env, "indexes", "remove", "person", "unknown"), 1, "", "there is no index of person.unknown")
	wantRun(t, inEnv(t, s.env, "indexes", "remove", "person", "email"), 0, "", "does the rest while it runs")
	await(t, "removed", func() bool { return len(s.declarations(t)) == 3 })
	find(0, "ada", "email", "ada@example.com") // by the index on email and born
	wantRun(t, inEnv(t, s.env, "indexes", "add", "--events", "entity_id"), 2, "", "events can be indexed by name only")
	wantRun(t, inEnv(t, s.env, "indexes", "remove", "--events", "name"), 1, "", "there is no index of events by name")
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"before","name":"paid"}`)
	wantRun(t, inEnv(t, s.env, "indexes", "add", "--events", "name"), 0, "", "does the rest while it runs")
	await(t, "ready", func() bool { return s.declarations(t)[0].State == index.Ready })
	if out, _ := wantRun(t, inEnv(t, s.env, "indexes", "list"), 0, "", ""); !strings.Contains(out, "(events)  name (text) ") {
		t.Error(out)
	}
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"after","name":"paid"}`)
	c.want(t, http.StatusCreated, "POST", "/create_event", `{"id":"other","name":"opened"}`)
	if r := c.want(t, http.StatusOK, "GET", "/event?name=paid&order=asc", ""); !regexp.MustCompile(`"before".*"after"`).MatchString(r.body) || strings.Contains(r.body, "other") {
		t.Error(r.body)
	}
	events := func(code int, out, message string, args ...string) (stdout string) {
		t.Helper()
		stdout, _ = wantRun(t, sluiceCommand(t, s.url, append([]string{"find", "--events", "paid"}, args...)...), code, out, message)
		return stdout
	}
	if out := events(0, `{"id":"before"`, "2 events, by the index on name."); !strings.Contains(out, `{"id":"after"`) || strings.Count(out, "\n") != 2 {
		t.Error(out)
	}
	events(0, `{"id":"after"`, "1 event, by the index on name. For more, add --cursor ", "--desc", "--limit", "1")
	events(0, "", "No event matches, by the index on name.", "--to", "2020-01-01T00:00:00Z")
	events(0, "{\n", "", "--json", "--from", "2020-01-01T00:00:00Z")
	events(2, "", "--from is not an RFC 3339 date-time", "--from", "yesterday")
	events(2, "", "no entity type", "person", "born")
	events(2, "", "--gte is a condition on entities", "--gte", "1")
	find(2, "--from and --to need --events", "born", "--gte", "1", "--from", "2020-01-01T00:00:00Z")
	wantRun(t, inEnv(t, s.env, "indexes", "remove", "--events", "name"), 0, "", "does the rest while it runs")
	wantRun(t, inEnv(t, s.env, "indexes", "remove", "person", "email", "born"), 0, "", "does the rest while it runs")
	await(t, "removed", func() bool { return len(s.declarations(t)) == 2 })
	find(1, "those that are: born (number)", "email", "ada@example.com")
}

// With a table, the command watches what the service does. If it is interrupted, the service goes on.
func TestIndexesOfATable(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	store, err := dynamo.NewEntities(client, table, dynamo.EntitiesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	declarations, err := dynamo.NewIndexes(client, table)
	if err != nil {
		t.Fatal(err)
	}
	for id, attributes := range map[string]string{"ada": `{"n":1}`, "grace": `{}`} {
		if _, _, err := entity.Create(t.Context(), store, "default", entity.Draft{ID: id, Type: "person", Attributes: record.Attributes(attributes)}); err != nil {
			t.Fatal(err)
		}
	}
	service := index.NewBuilder(declarations, index.Keepers{Entities: store}, index.BuilderConfig{TakeUp: -1})
	command := func(args ...string) *exec.Cmd {
		return inEnv(t, nil, append([]string{"indexes"}, append(args, "--dynamodb", dynamolocal.Endpoint(t), "--table", table)...)...)
	}
	list := func() []index.Declaration {
		all, err := declarations.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	interrupted := command("add", "person", "n", "--number", "--rate", "50")
	diagnostics, err := interrupted.StderrPipe()
	if err == nil {
		err = interrupted.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(diagnostics)
	for lines.Scan() && lines.Text() != "The service builds the index of person.n, even if this command is stopped." { // the SDK logs warnings
	}
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := interrupted.Wait(); interrupted.ProcessState.ExitCode() != exitInterrupted {
		t.Error(err)
	}
	if d := list()[0]; d.State != index.Writing || d.Rate != 50 {
		t.Errorf("%+v", d)
	}

	finish := func(cmd *exec.Cmd, done func([]index.Declaration) bool, want string) {
		t.Helper()
		var out, diagnostics bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &diagnostics
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "done", func() bool {
			if err := service.Work(t.Context()); err != nil {
				t.Fatal(err)
			}
			return done(list())
		})
		if err := cmd.Wait(); err != nil || out.String() != want {
			t.Errorf("%v: %s%s", err, &out, &diagnostics)
		}
	}
	finish(command("add", "person", "n", "--number"), func(all []index.Declaration) bool { return all[0].State == index.Ready },
		"The index of person.n is ready: 1 entity indexed, 1 without an attribute.\n")
	finish(command("remove", "person", "n"), func(all []index.Declaration) bool { return len(all) == 0 }, "The index of person.n is removed.\n")
}
