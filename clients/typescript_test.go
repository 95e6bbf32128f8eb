package clients

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/internal/test/browsertest"
	"sluice/internal/test/child"
)

const typescriptHelp = "install Node.js and run: make typescript-client"

// modules contains what "make typescript-client" installs.
const modules = "../.cache/typescript-client/node_modules"

// project is a new project in which only the package of the client is installed, and into which
// the programs in typescript/tests are copied.
var project = sync.OnceValues(func() (dir string, err error) {
	bin, err := filepath.Abs(modules + "/.bin")
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "typescript")
	if err := os.CopyFS(source, os.DirFS("typescript")); err != nil {
		return "", err
	}
	pack := exec.Command("npm", "pack", "--silent")
	pack.Dir, pack.Env = source, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := pack.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	file := filepath.Join(source, strings.TrimSpace(string(out)))
	dir = filepath.Join(root, "project")
	if err := os.CopyFS(dir, os.DirFS("typescript/tests")); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o600); err != nil {
		return "", err
	}
	install := exec.Command("npm", "install", "--offline", "--no-audit", "--no-fund", file)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return dir, nil
})

// The programs in typescript/tests pass, with the tests of what only this client has.
func TestTheTypeScriptClient(t *testing.T) {
	t.Parallel()
	cmd := node(t, "--test", "client.test.js", "pace.test.js")
	cmd.Env = append(os.Environ(), "TRACES="+filepath.Join(child.ModuleRoot(t), "pkg/client/testdata/pace.json"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// eslint and prettier accept the code, and generate.mjs writes the same types.
func TestTheTypeScriptClientIsTypedAndFormatted(t *testing.T) {
	t.Parallel()
	requireTypeScript(t)
	all, err := filepath.Abs(modules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, os.DirFS("typescript")), os.Symlink(all, filepath.Join(dir, "node_modules"))); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"eslint":   "node_modules/.bin/eslint --max-warnings 0 .",
		"prettier": "node_modules/.bin/prettier --check .",
		"types":    `node generate.mjs "$ROOT/openapi.yaml" | diff - src/api.ts || { echo "run: make typescript-types"; exit 1; }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "ROOT="+child.ModuleRoot(t))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The TypeScript examples in docs/clients.md pass tsc --strict, with the types of browsers and those
// of Node.js, and with the latter only. They run unchanged, one after another.
func TestTheTypeScriptExamplesOfTheDocs(t *testing.T) {
	t.Parallel()
	want := []string{
		"order-3 true\n",
		"order_placed { total: 19.5 }\n[ 'ada', 'old' ] null\nada { email: 'ada@example.com' }\n",
		"{ visits: 1 } 2\nada is stored\nbob is deleted\n",
		"3 entities; the next walk starts at 20",
		"nobody is not there\n422 invalid_body [ { field: 'name', detail: 'is required: 1 to 128 characters' } ]\nchange the event\n",
		"",
	}
	examples := examplesOfTheDocs(t, "ts", len(want))
	requireTypeScript(t)
	packed, err := project()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(packed, "examples")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tsc := []string{"--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--typeRoots", modules + "/@types"}
	for i, example := range examples {
		file := filepath.Join(dir, fmt.Sprintf("example%d.ts", i))
		if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		tsc = append(tsc, file)
	}
	for _, more := range [][]string{{"--outDir", dir}, {"--noEmit", "--lib", "es2022"}} {
		if out, err := exec.CommandContext(t.Context(), modules+"/.bin/tsc", append(tsc, more...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", more, err, out)
		}
	}
	url, key := startService(t)
	for i, example := range examples {
		cmd := node(t, filepath.Join(dir, fmt.Sprintf("example%d.js", i)))
		cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE_API_KEY="+key)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want[i]) {
			t.Errorf("%v\n%s\nprinted %s\nwant %s", err, example, out, want[i])
		}
	}
	file, err := os.Open(filepath.Join(packed, "events.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // the file is only read
	lines, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(lines); err != nil || bytes.Count(text, []byte("\n")) != 252 {
		t.Errorf("the export has %d events, %v", bytes.Count(text, []byte("\n")), err)
	}
}

// node returns a command that runs node in the project.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	requireTypeScript(t)
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Dir = dir
	return cmd
}

func requireTypeScript(t *testing.T) {
	t.Helper()
	_, missing := os.Stat(modules)
	_, noNode := exec.LookPath("npm")
	child.Require(t, errors.Join(missing, noNode), typescriptHelp)
}

// runNode is the driver of the TypeScript client on Node.js.
func runNode(t *testing.T, programs []program) [][]json.RawMessage {
	t.Helper()
	return runDriver(t, node(t, "conformance.js", strconv.Itoa(programsAtATime)), programs)
}

// pageOfTheSuite serves a page that can run programs with the installed package.
func pageOfTheSuite(t *testing.T) http.Handler {
	t.Helper()
	requireTypeScript(t)
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Conformance suite</title>
			<script type="importmap">{"imports": {"sluice-client": "/node_modules/sluice-client/dist/index.js"}}</script>
			<script type="module">import * as driver from "/driver.js"; globalThis.driver = driver;</script>`)
	})
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	return mux
}

// runChromium is the driver of the TypeScript client in a page, which has six connections to a host.
// It also checks that the page can use a service of another origin.
func runChromium(t *testing.T, programs []program) (results [][]json.RawMessage) {
	t.Helper()
	tab := browsertest.Start(t).Tab(t, browsertest.Desktop)
	origin, _, _ := strings.Cut(programs[0].URL, "/stage/")
	tab.Open(origin)
	tab.Wait("globalThis.driver")
	input, err := json.Marshal(programs)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(string(input))
	if err != nil {
		t.Fatal(err)
	}
	service, key := startServiceFor(t, origin)
	got := browsertest.Eval[string](tab, fmt.Sprintf("driver.otherOrigin('%s', '%s').then(JSON.stringify)", service, key))
	if want := `[true,2,"NotFoundError 404 not_found","default",3,10,"18446744073709551617"]`; got != want {
		t.Errorf("with a service of another origin, the page got %s, want %s", got, want)
	}
	out := browsertest.Eval[string](tab, fmt.Sprintf("driver.run(%s, 6)", quoted))
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatal(err)
	}
	return results
}
