package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"sluice/internal/test/child"
)

const help = "run: make python-client"

// The code passes ruff, and mypy in strict mode for the oldest Python that the client
// supports.
func TestThePythonClientIsTypedAndFormatted(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"mypy":        {"mypy", "--strict", "--no-incremental", "--cache-dir", os.DevNull},
		"ruff check":  {"ruff", "check", "--no-cache", "."},
		"ruff format": {"ruff", "format", "--no-cache", "--diff", "."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(cache + "bin/" + args[0])
			if err != nil {
				t.Fatal(err)
			}
			_, err = os.Stat(path)
			child.Require(t, err, help)
			cmd := exec.CommandContext(t.Context(), path, args[1:]...)
			cmd.Dir = "python"
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// A change of the client for asyncio also changes the blocking client, which is generated.
func TestTheBlockingPythonClientIsGenerated(t *testing.T) {
	t.Parallel()
	_, err := os.Stat(cache + "bin/ruff")
	child.Require(t, err, help)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), cache+"bin/python", "python/generate.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"_client.py", "_blocking.py"} {
		want, wantErr := os.ReadFile(filepath.Join(dir, name))
		got, gotErr := os.ReadFile("python/src/sluice_client/" + name)
		if err := errors.Join(wantErr, gotErr); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is not what generate.py writes; run: make blocking-client", name)
		}
	}
}

// root is the directory of the wheel and the Python environments, which all tests share.
var root string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if root, err = os.MkdirTemp("", "sluice-clients-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(root) //nolint:errcheck // a temporary directory
		return m.Run()
	}())
}

// python is an interpreter in an environment of its own, in which only the client's wheel and
// its dependencies are installed.
type python struct {
	name    string // such as python3.10
	install func() (interpreter string, err error)
}

// Minor versions of Python 3: the oldest that the client supports, and the newest that tests look
// for.
const oldest, bound = 10, 30

// pythons returns the oldest Python that the client supports, if this machine has it, and then
// the newest Python that this machine has.
var pythons = sync.OnceValue(func() (all []python) {
	minors := []int{oldest}
	for minor := bound; minor > oldest; minor-- {
		if findPython(minor) != "" {
			minors = append(minors, minor)
			break
		}
	}
	for _, minor := range minors {
		if path := findPython(minor); path != "" {
			all = append(all, python{fmt.Sprintf("python3.%d", minor), sync.OnceValues(func() (string, error) { return install(path) })})
		}
	}
	if len(all) == 0 {
		missing := errors.New("no Python 3.10 or later was found")
		all = append(all, python{"python", func() (string, error) { return "", missing }})
	}
	return all
})

func newestPython() python { return pythons()[len(pythons())-1] }

// findPython returns the path of an interpreter for Python 3.<minor>, or "" if there is none. It
// also looks in pyenv, whose interpreters may not be in PATH.
func findPython(minor int) string {
	name := fmt.Sprintf("python3.%d", minor)
	versions := filepath.Join(cmp.Or(os.Getenv("PYENV_ROOT"), os.Getenv("HOME")+"/.pyenv"), "versions")
	found, _ := filepath.Glob(versions + "/*/bin/" + name) // fails only for a malformed pattern
	for _, path := range append([]string{name}, found...) {
		if exec.Command(path, "-c", "import venv, ssl").Run() == nil {
			return path
		}
	}
	return ""
}

// wheel builds the client's wheel, without access to the network, and returns the wheel's path.
var wheel = sync.OnceValues(func() (path string, err error) {
	if err := pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", root, "./python"); err != nil {
		return "", err
	}
	wheels, err := filepath.Glob(filepath.Join(root, "sluice_client-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("wheels %q, %w", wheels, err)
	}
	return wheels[0], nil
})

// install creates an environment for the interpreter at path, installs the wheel there, and
// returns the environment's own interpreter.
func install(path string) (interpreter string, err error) {
	file, err := wheel()
	if err != nil {
		return "", err
	}
	env, err := os.MkdirTemp(root, "env-")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(path, "-m", "venv", "--without-pip", env).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	interpreter = filepath.Join(env, "bin/python")
	return interpreter, pip("--python", interpreter, "install", "--no-index", "--find-links", cache+"wheels", file)
}

// cache is the directory into which "make python-client" installs its tools.
const cache = "../.cache/python-client/"

// pip runs the pip that "make python-client" installs.
func pip(args ...string) error {
	if out, err := exec.Command(cache+"bin/pip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("pip %v: %w\n%s", args, err, out)
	}
	return nil
}

// command returns a Python command that can import the client. Python warnings are errors.
func (p python) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	interpreter, err := p.install()
	child.Require(t, err, help)
	cmd := exec.CommandContext(t.Context(), interpreter, append([]string{"-W", "error"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// driver returns the driver of the Python client. mode is "sync" or "async".
func (p python) driver(t *testing.T, mode string) driver {
	t.Helper()
	return func(t *testing.T, programs []program) [][]json.RawMessage {
		t.Helper()
		return runDriver(t, p.command(t, "python/tests/driver.py", mode, strconv.Itoa(programsAtATime)), programs)
	}
}
