package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/internal/test/child"
	"sluice/internal/test/secrettest"
)

// The program prints what is wrong, exits with exitUsage, sends nothing and creates no file.
func TestInvalidCommandLines(t *testing.T) {
	t.Parallel()
	const since = " --since 2026-01-01T00:00:00Z"
	for command, lines := range map[string][]string{ // beginning of a command line → what makes it invalid
		"":       {"nothing", "serve now", "usage now", "usage --once --of=", "usage --url=localhost:3000", "find person email --url localhost"},
		"import": {"", " f.ndjson", " entities", " events f.ndjson g", " things f.ndjson", " events none.ndjson", " events file.txt", " events .", " events f.zip"},
		"import events f.ndjson": {
			" --map id", " --map =id", " --map a=id,a=name", " --map a=id --map b=id", " --map a=type", " --delimiter ;", " --format csv --delimiter ;;", " --encoding nothing", " --format xml",
			" --time-format dd.mm.yyyy", " --time-format %H:%M", " --time-format %d.%m.%!", " --time-format %Y-%m-%d,%I:%M", " --time-format %d.%m.%Y,%-I", " --time-format %I:%M:%S",
			" --time-format %Y-%m-%dT%H:%M:%S%Z", " --time-format %Y-%m-%d%z --time-zone UTC", " --time-zone UTC", " --time-format %d.%m.%Y --time-zone Mars",
			" --type t", " --update", " --create-only", " --mirror", " --workers 0", " --workers 65", " --rate 0", " --share 0", " --rejects f.ndjson", " --url localhost",
		},
		"import entities f.ndjson": {" --map a=created_at", " --time-format %d.%m.%Y", " --name n", " --create-only --update", " --one-by-one", " --mirror --update", " --mirror --create-only", " --whole"},
		"export":                   {"", " things -o -", " event", " event --output=", " event -o file", " event -o file.json", " event -o /tmp"},
		"export event -o -": {
			" --format xml", " --format json", " --share NaN", " --json", " --type t", " --from now", " --entity-id=", " --from=", " --to=", // an empty filter, for example from an unset shell variable, must not select everything
			" --include-deleted" + since, " --to 2026-02-01T00:00:00Z" + since,
		},
		"export entities": {
			" -o - --since now", " -o - --since=", " -o - --include-deleted", " -o - --type=", " -o - --to 2026-01-01T00:00:00Z", " -o - --csv-formulas=", " -o e.csv --format=", " -o - --type person" + since,
			" -o - --format csv" + since, " -o x.csv" + since, " -o - --csv-formulas neutralize" + since, " -o - --entity-id ada" + since,
		},
		"sync":  {" events", " entities -", " entities copy.ndjson.gz", " events copy.csv", " people copy.ndjson", " entities copy.ndjson --rate 0", " entities copy.ndjson --share 1.1"},
		"copy":  {"", " http://a", " http://a b", " localhost:3000 http://b", " http://a http://b --every 5s", " http://a http://b --follow --every 1ms", " http://a http://b --share 0"},
		"erase": {"", " entity", " event e", " entity a/b", " entity a --url ftp://host"},
		"limits": {
			" now", " --once", " list all", " list --data-dir d --table t", " remove", " remove here", " remove key:", " check 192.0.2.1 192.0.2.2", " check 192.0.2.1 key:7m3k", " check 192.0.2.0/24",
			" set", " set 192.0.2.1", " set 192.0.2.7/24", " set 2001:db8::1", " set 2001:db8:1:2:3::/80", " set key:7m3k", " set key:7m3kq2xw9abc --note n",
		},
		"limits set 192.0.2.1": {" --records 0", " --imports 901", " --requests x", " --expires-in 0d", " --action allow", " --action block --records 1", " --note a\x01b"},
		"keys":                 {" now", " list now", " list --data-dir d --dynamodb http://127.0.0.1:9", " list --workspace=", " revoke", " revoke slc_aaaaaaaaaaaa_aaaa", " create", " create --scope admin"},
		"keys create --scope import": {
			"", // no server has used the default data directory, so no server would find the key
			" --expires-in soon", " --expires-in=", " --workspace a/b", " --workspace=",
		},
	} {
		for _, more := range lines {
			cmd := inEnv(t, []string{"DATA_DIR=", "KEYS_TABLE="}, strings.Fields(command+more)...)
			overwrite(t, filepath.Join(cmd.Dir, "f.ndjson"), "")
			wantRun(t, cmd, exitUsage, "", "sluice: ")
			wantFiles(t, cmd.Dir, "f.ndjson")
		}
	}
	wantRun(t, sluiceCommand(t, "api.example.com", "usage", "--once"), exitUsage, "", "sluice: SLUICE_URL")
}

// Without a journal, the user can try again with another service or another key.
func TestARejectedKeyLeavesNoJournal(t *testing.T) {
	t.Parallel()
	env := []string{"AUTH_MODE=api-key", "DATA_DIR=" + t.TempDir()}
	s := startIn(t, env)
	key := createKey(t, env, "--scope", "dashboard")
	file := write(t, "events.ndjson", "{\n"+eventLines(300))
	entities := filepath.Join(filepath.Dir(file), "entities.ndjson")
	if err := os.WriteFile(entities, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", "events", file}, {"import", "entities", entities, "--workers", "1"}, {"export", "events", "-o", filepath.Join(filepath.Dir(file), "out.csv")}} {
		cmd := sluiceCommand(t, s.url, args...)
		cmd.Env = append(cmd.Env, "SLUICE_API_KEY="+key)
		out, stderr, code := run(t, cmd)
		if code != exitFailure || out != "" || !strings.Contains(stderr, "status 403") || strings.Contains(stderr, "same command") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, stderr)
		}
		wantFiles(t, filepath.Dir(file), "entities.ndjson", "events.ndjson")
	}
}

// The printed command works in any directory, because the path in its --data-dir is absolute.
func TestThePrintedCommandCreatesAKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's data")
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(work, dir)
	if err != nil {
		t.Fatal(err)
	}
	s := startIn(t, []string{"AUTH_MODE=api-key", "DATA_DIR=" + relative})
	arguments, err := s.ReadyText(t.Context(), `KEY=\$\(sluice (.*)\)`)
	if want := "  records in " + dir + "/sluice.db, "; err != nil || !strings.Contains(s.Log(), want) {
		t.Fatalf("%q does not contain %q, %v", s.Log(), want, err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", program+" "+arguments)
	cmd.Dir = t.TempDir()
	key, _ := wantRun(t, cmd, 0, "slc_", dir)
	secrettest.Keep(strings.TrimSpace(key))
	for _, scheme := range []string{"Bearer ", "bearer  "} {
		if r := s.client(t).check(t, "POST", "/create_entity", `{"id":"ada"}`, "Authorization", scheme+strings.TrimSpace(key)); r.status/100 != 2 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// Neither the server nor make reports an error.
func TestCtrlCEndsMakeRun(t *testing.T) {
	t.Parallel()
	requireProgram(t, "script", "install bsdutils, which contains script(1)")
	for _, command := range []string{program + " serve", "make -C " + child.ModuleRoot(t) + " run"} {
		// exec replaces the shell, which might otherwise exit with 130.
		cmd := exec.CommandContext(t.Context(), "script", "-qec", "exec "+command, os.DevNull)
		cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATA_DIR="+t.TempDir(), "MAKEFLAGS=")
		keyboard, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if _, err := p.ReadyText(t.Context(), "(Ctrl-C stops the server)"); err != nil {
			t.Fatal(err)
		}
		if _, err := keyboard.Write([]byte{3}); err != nil { // ETX, the character that Ctrl-C sends
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil || !strings.Contains(p.Log(), "Stopped.") {
			t.Errorf("%s: %v, %s", command, err, p.Log())
		}
	}
}

// The command reports the outage within two seconds. After three tries it also asks whether the
// server is running.
func TestAnOutageIsReported(t *testing.T) {
	t.Parallel()
	file := write(t, "events.ndjson", eventLines(1))
	for _, tt := range []struct{ url, reason string }{{nowhere, "connection refused"}, {"http://sluice.invalid", ""}} {
		for _, args := range [][]string{{"import", "events", file}, {"usage", "--once"}} {
			cmd := sluiceCommand(t, tt.url, args...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(stderr)
			text, err := lines.ReadBytes('\n')
			if took := time.Since(began); err != nil || took > 2*time.Second {
				t.Errorf("%v: reported after %s, %v", args, took, err)
			}
			if !regexp.MustCompile(`^No response from ` + tt.url + `: .*` + tt.reason + `\. Trying again\.\n`).Match(text) {
				t.Errorf("%v: %s", args, text)
			}
			for try := 1; !bytes.HasPrefix(text, []byte("Is the server running? ")); try++ {
				if text, err = lines.ReadBytes('\n'); err != nil || try > 3 {
					t.Fatalf("%v: after %d tries: %s, %v", args, try, text, err)
				}
			}
			cmd.Process.Kill()          //nolint:errcheck // the command may have ended
			io.Copy(io.Discard, stderr) //nolint:errcheck // waits until the command has ended
			cmd.Wait()                  //nolint:errcheck // the command was killed
		}
	}
}

// onTerminal runs a shell command in a terminal and returns what the terminal shows.
func onTerminal(t *testing.T, env []string, command string) (shown string, code int) {
	t.Helper()
	requireProgram(t, "script", "install bsdutils, which contains script(1)")
	cmd := exec.CommandContext(t.Context(), "script", "-qec", command, os.DevNull)
	cmd.Env = env
	stdin, err := cmd.StdinPipe() // kept open, because script(1) ends when its input ends
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() //nolint:errcheck // the command has ended
	shown, _, code = run(t, cmd)
	return shown, code
}

// Every line fits, even if the terminal's width changes. After a signal, the command restores
// the terminal and ends.
func TestUsageFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"INT", "TERM"} {
		url, asked := usageServer(t)
		wide, ended := filepath.Join(t.TempDir(), "wide"), filepath.Join(t.TempDir(), "ended")
		go func() {
			for _, file := range []string{wide, ended} {
				for range 3 { // wait for three responses
					<-asked
				}
				overwrite(t, file, "")
			}
		}()
		// exec replaces the shell, so $$ is the process id of the command.
		resize := "stty rows 24 cols 60; await() { until [ -e $1 ]; do sleep 0.05; done; }; " +
			"{ await " + wide + "; stty cols 120 </dev/tty; await " + ended + "; kill -" + signal + " $$; } & exec "
		shown, code := onTerminal(t, sluiceCommand(t, url).Env, resize+program+" usage")
		if code != 0 || !strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l\x1b[Hkey 7m3kq2xw9abc") || !strings.HasSuffix(shown, "\x1b[J\x1b[?25h\x1b[?1049l") {
			t.Errorf("SIG%s: exit code %d, %q", signal, code, shown)
		}
		screens := strings.Split(shown, "\x1b[H")[1:]
		if len(screens) < 3 {
			t.Fatalf("%q", shown)
		}
		for _, tt := range []struct {
			screen  string
			columns int
			want    string
		}{
			{screens[0], 60, " 0 of 200"}, {screens[len(screens)-1], 120, " 0 now, at most 0 of 200, 0 full"},
		} {
			longest := 0
			for line := range strings.SplitSeq(tt.screen, "\x1b[K") {
				longest = max(longest, utf8.RuneCountInString(strings.TrimLeft(line, "\r\n")))
			}
			if longest >= tt.columns || longest < tt.columns*3/4 || !strings.Contains(tt.screen, tt.want+"\x1b[K") {
				t.Errorf("%d of %d columns are used: %q; want %q", longest, tt.columns, tt.screen, tt.want)
			}
		}
	}
}
