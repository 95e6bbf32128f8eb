package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/secrettest"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
)

// page is a section of a page in docs, whose commands a test runs as they are written.
type page struct {
	commands []string // blocks of lines
	env      []string // of all commands
	exports  string   // the lines that set variables
}

// section returns the commands of a section, with some texts replaced by those of the test.
func section(t *testing.T, file, heading string, env []string, replace ...string) *page {
	t.Helper()
	text := read(t, filepath.Join(child.ModuleRoot(t), "docs", file))
	_, text, found := strings.Cut(text, heading+"\n")
	if !found {
		t.Fatalf("docs/%s has no section %q", file, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Errorf("docs/%s does not have %q", file, replace[i])
		}
	}
	bin := t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	p := &page{env: append(append(os.Environ(), env...), "PATH="+bin+":"+os.Getenv("PATH"))}
	for _, block := range regexp.MustCompile(`(?m)(?:^ {7}.+\n)+`).FindAllString(strings.NewReplacer(replace...).Replace(text), -1) {
		p.commands = append(p.commands, strings.ReplaceAll(block, "       ", ""))
	}
	return p
}

// next returns the next block, whose last command replaces the shell. Blocks run in dir.
func (p *page) next(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	if len(p.commands) == 0 {
		t.Fatal("the page has no further commands")
	}
	block := p.commands[0]
	p.commands = p.commands[1:]
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "export ") {
			p.exports += line
			block = strings.Replace(block, line, "", 1)
		}
	}
	lines := strings.Split(strings.TrimSpace(block), "\n")
	command, _, _ := strings.Cut(lines[len(lines)-1], "  #")
	lines[len(lines)-1] = "exec " + command
	cmd := exec.Command("bash", "-e", "-c", p.exports+strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = dir, p.env
	return cmd
}

// followed runs "sluice copy --follow": it kills the first process soon, and returns a second one
// that has said that both sides are equal.
func followed(t *testing.T, cmd *exec.Cmd) *child.Process {
	t.Helper()
	for _, kill := range []bool{true, false} {
		again := *cmd
		p, err := child.Start(&again)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.Kill()
			secrettest.Check(t, "sluice copy", p.Log())
		})
		if kill {
			<-time.After(rand.N(700 * time.Millisecond)) // at any moment
			p.Kill()
			continue
		}
		if _, err := p.ReadyText(t.Context(), `Equal up to (\S+):`); err != nil {
			t.Fatalf("%v\n%s", err, p.Log())
		}
		return p
	}
	return nil
}

// interrupt stops a process as Ctrl-C does.
func interrupt(t *testing.T, p *child.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		t.Fatalf("the process goes on:\n%s", p.Log())
	}
}

// writer changes records of a service until it is refused or finds no server.
type writer struct {
	client  *client.Client
	ended   chan struct{}
	refused error

	mu     sync.Mutex
	events int // numbers of confirmed events, from 0
}

func startWriter(t *testing.T, url, key, address string) *writer {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := client.New(url, client.Config{Key: key, MaxTries: 1, Transport: &http.Transport{DialContext: dialer.DialContext}})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{client: c, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		next := time.NewTicker(5 * time.Millisecond) // a client among others
		defer next.Stop()
		for n := 0; w.refused == nil; n++ {
			w.refused = w.write(t.Context(), n)
			<-next.C
		}
	}()
	t.Cleanup(func() { <-w.ended })
	return w
}

func (w *writer) write(ctx context.Context, n int) error {
	id := fmt.Sprint("e", rand.IntN(60))
	drafts := []entity.Draft{{ID: id, Attributes: fmt.Appendf(nil, `{"n":%d,"a%d":null}`, n, rand.IntN(9)), Replace: rand.IntN(2) == 0}}
	if rand.IntN(4) == 0 {
		drafts[0] = entity.Draft{ID: id, Deleted: true}
	}
	if _, err := w.client.UpsertEntities(ctx, drafts); err != nil {
		return err
	}
	if _, err := w.client.CreateEvents(ctx, []event.Draft{{ID: fmt.Sprint("v", n), Name: "n", EntityID: id}}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	return nil
}

func (w *writer) confirmed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// wait waits until the writer has stored n more events.
func (w *writer) wait(t *testing.T, n int) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(time.Minute)
	for enough := w.confirmed() + n; w.confirmed() < enough; {
		select {
		case <-w.ended:
			t.Fatalf("the writer ended early: %v", w.refused)
		case <-deadline:
			t.Fatalf("the writer has stored %d events, want %d", w.confirmed(), enough)
		case <-again.C:
		}
	}
}

// wantCopied checks that both services have the same records, among them everything that was
// confirmed to the writer.
func (w *writer) wantCopied(t *testing.T, from, fromKey, to, toKey string) {
	t.Helper()
	want, got := contentsOf(t, from, fromKey), contentsOf(t, to, toKey)
	for id, record := range got {
		if want[id] == "" {
			t.Errorf("only the copy has %s: %s", id, record)
		}
	}
	for id, record := range want {
		if got[id] != record {
			t.Errorf("%s is %q in the copy, want %q", id, got[id], record)
		}
	}
	for n := range w.confirmed() {
		if got[fmt.Sprint("event v", n)] == "" {
			t.Errorf("the event v%d is lost", n)
		}
	}
	t.Logf("%d records, %d confirmed events", len(got), w.confirmed())
}

func contentsOf(t *testing.T, url, key string) map[string]string {
	t.Helper()
	c, err := client.New(url, client.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for e, err := range c.Entities(t.Context(), client.EntityQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		all["entity "+e.ID] = e.Type + " " + string(e.Attributes)
	}
	for e, err := range c.Events(t.Context(), client.EventQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		all["event "+e.ID] = fmt.Sprint(e.Name, e.EntityID, e.OccurredAt, string(e.Attributes))
	}
	return all
}

// stack is a server on new tables in DynamoDB Local, with API keys, and the key of a client.
type stack struct {
	*server
	key    string
	limits string // name of the table
}

func startStack(t *testing.T) stack {
	t.Helper()
	tables := make(map[string]string)
	env := append([]string{"DATA_DIR=" + t.TempDir(), "AUTH_MODE=api-key", "LIMITS_MAX_AGE=1s"}, unlimited...)
	for _, name := range []string{"Counters", "Entities", "Events", "Keys", "Limits", "ExportJobs", "ErasureJobs"} {
		tables[name] = dynamolocal.Table(t, name+"Table")
		variable := map[string]string{"ExportJobs": "EXPORT_JOBS", "ErasureJobs": "ERASURE_JOBS"}[name]
		if variable == "" {
			variable = strings.ToUpper(name)
		}
		env = append(env, variable+"_TABLE="+tables[name])
	}
	s := startIn(t, env, "--dynamodb", dynamolocal.Endpoint(t))
	cmd := exec.Command(program, "keys", "create", "--scope", "import", "--scope", "export", "--scope", "erase", "--table", tables["Keys"], "--dynamodb", dynamolocal.Endpoint(t))
	key, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(key))
	secrettest.Keep(token)
	return stack{s, token, tables["Limits"]}
}

func TestAMoveWithACopy(t *testing.T) {
	t.Parallel()
	from, to, dir := startStack(t), startStack(t), t.TempDir()
	aws := []string{"AWS_ENDPOINT_URL_DYNAMODB=" + dynamolocal.Endpoint(t), "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local"}
	p := section(t, "move.md", "## With a copy", aws,
		"FROM=https://… TO=https://…", "FROM="+from.url+" TO="+to.url,
		"SLUICE_FROM_API_KEY=slc_… SLUICE_TO_API_KEY=slc_…", "SLUICE_FROM_API_KEY="+from.key+" SLUICE_TO_API_KEY="+to.key,
		"LIMITS_TABLE=sluice-prod-LimitsTable-ABC MACHINE=203.0.113.7", "LIMITS_TABLE="+from.limits+" MACHINE=127.0.0.1")
	w := startWriter(t, from.url, from.key, "127.0.0.2")
	w.wait(t, 100)
	copying := followed(t, p.next(t, dir))
	w.wait(t, 50)

	wantRun(t, p.next(t, dir), 0, "", "")
	<-w.ended
	if refused := new(client.Error); !errors.As(w.refused, &refused) || refused.Code != "address_blocked" {
		t.Errorf("the writer ended with %v", w.refused)
	}
	interrupt(t, copying)
	wantRun(t, p.next(t, dir), 0, "Equal up to 2", "")
	w.wantCopied(t, from.url, from.key, to.url, to.key)
	if len(p.commands) > 0 {
		t.Errorf("commands that were not run: %q", p.commands)
	}
}

func TestACopyReportsEventsThatDiffer(t *testing.T) {
	t.Parallel()
	from, to := start(t, t.TempDir()), start(t, t.TempDir())
	from.client(t).want(t, http.StatusCreated, "POST", "/create_event", `{"id":"v","name":"n"}`)
	to.client(t).want(t, http.StatusCreated, "POST", "/create_event", `{"id":"v","name":"other"}`)
	copying := func(more ...string) *exec.Cmd {
		return sluiceCommand(t, "", append([]string{"copy", from.url, to.url, "--state", filepath.Join(t.TempDir(), "copy")}, more...)...)
	}
	wantRun(t, copying(), exitUsage, "", "has records")
	wantRun(t, copying("--force"), exitRejected, "Equal up to 2", "The destination has another event with the id v.\nsluice: 1 event differs, and no event can be changed\n")
	wantRun(t, copying("--force", "--json"), exitRejected, `{
  "entities": 0,
  "events": 1,`, "")
}

func TestTheWayToAWS(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), t.TempDir()
	env := append([]string{"DATA_DIR=" + data}, unlimited...)
	from, to := startIn(t, env), startStack(t)
	p := section(t, "to-aws.md", "# From one machine to AWS", append(env, "API_URL="+to.url, "KEY="+to.key),
		"FROM=http://127.0.0.1:3000", "FROM="+from.url, "--addr 127.0.0.1:3999", "--addr 127.0.0.1:0", "http://127.0.0.1:3999", `"$MOVED"`)
	if run := p.commands[0]; run != "make run\n" {
		t.Errorf("the page begins with %q", run)
	}
	p.commands = p.commands[1:]
	w := startWriter(t, from.url, "", "127.0.0.1")
	w.wait(t, 100)
	copying := followed(t, p.next(t, dir))
	w.wait(t, 50)

	began := time.Now()
	interrupt(t, copying)
	from.stop(t)
	<-w.ended
	if refused := new(client.Error); !errors.As(w.refused, &refused) || refused.Status != 0 {
		t.Errorf("the writer ended with %v", w.refused)
	}
	moved, err := child.Start(p.next(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(moved.Kill)
	url, err := moved.ReadyText(t.Context(), `Sluice listens on (\S+)\n`)
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "MOVED="+url)
	wantRun(t, p.next(t, dir), 0, "Equal up to 2", "")
	t.Logf("the pause took %v", time.Since(began).Round(10*time.Millisecond))
	w.wantCopied(t, url, "", to.url, to.key)
	if len(p.commands) > 0 {
		t.Errorf("commands that were not run: %q", p.commands)
	}
	interrupt(t, moved)
}
