package journal

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var work = struct {
	URL string `json:"url"`
}{"http://a"}

type position struct{ Line int64 }

func begin(t *testing.T, path string) (j *Journal, at position) {
	t.Helper()
	j, err := Open(path, Task{Command: "import", Work: work}, &at)
	if err == nil && j.ID == "" {
		err = j.Begin()
	}
	if err != nil {
		t.Fatal(err)
	}
	return j, at
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFileCannotBeImportedTwiceAtTheSameTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	first, _ := begin(t, path)
	if _, err := Open(path, Task{Command: "import", Work: work}, nil); err == nil || !strings.Contains(err.Error(), "another import of this file is running") {
		t.Errorf("error %v", err)
	}
	closed(t, first)
	second, _ := begin(t, path)
	if second.ID != first.ID || first.ID == "" {
		t.Errorf("id %q after %q", second.ID, first.ID)
	}
	closed(t, second)
}

// A child process that is just starting briefly inherits the open files. Even then, another
// process can open the journal as soon as Close has returned.
func TestAJournalIsFreeOnceItIsClosed(t *testing.T) {
	t.Parallel()
	ended, others := make(chan struct{}), sync.WaitGroup{}
	others.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				exec.Command("true").Run() //nolint:errcheck // only the start matters
			}
		}
	})
	path := filepath.Join(t.TempDir(), "journal")
	for i := range 5000 {
		j, err := Open(path, Task{Command: "import", Work: work}, nil)
		if err != nil {
			t.Errorf("open %d: %v", i, err)
			break
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	close(ended)
	others.Wait()
}

// A truncated journal is valid up to its last complete line.
func TestATruncatedJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := begin(t, path)
	for line := range int64(3) {
		if err := j.Save(position{line + 1}); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, j)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		cut, at := begin(t, path)
		lines := int64(bytes.Count(whole[:n], []byte("\n")))
		if at.Line != max(lines-1, 0) || (cut.ID == j.ID) != (lines > 0) {
			t.Errorf("after %d bytes: checkpoint %+v, id %q", n, at, cut.ID)
		}
		if err := cut.Save(position{9}); err != nil {
			t.Fatal(err)
		}
		closed(t, cut)
		again, at := begin(t, path)
		if at.Line != 9 || again.ID != cut.ID {
			t.Fatalf("after %d bytes and a checkpoint: checkpoint %+v, id %q", n, at, again.ID)
		}
		closed(t, again)
	}
}

// Open fails and leaves the file unchanged.
func TestAFileThatIsNotAJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	for _, text := range []string{"something else\n", "something else", "{}\n", `{"name":"n"}`, "\n", magic + "\n", `{"sluice_journal":1,"id":"x"}` + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Task{Command: "import", Work: work}, nil); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

func TestAnotherTaskCanUseTheJournalOfAFinishedTask(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := begin(t, path)
	if err := j.Save(position{5}); err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	if _, err := Open(path, Task{Command: "import", Source: "s/other", Work: work, Remedy: "do something else"}, nil); err == nil || !strings.HasSuffix(err.Error(), "but this is the workspace other of the service s: use the URL and API key of the former, or do something else") {
		t.Errorf("another workspace: %v", err)
	}
	for command, other := range map[string]any{"import": "other content", "export": work} {
		if _, err := Open(path, Task{Command: command, Work: other}, nil); err == nil || !strings.Contains(err.Error(), "belongs to another import") {
			t.Errorf("unfinished, then an %s of %v: %v", command, other, err)
		}
	}
	j, _ = begin(t, path)
	if err := j.Finish(); err != nil {
		t.Fatal(err)
	}
	closed(t, j)
	j, at := begin(t, path)
	if j.FinishedAt == nil || at.Line != 5 {
		t.Errorf("finished at %v, checkpoint %+v", j.FinishedAt, at)
	}
	closed(t, j)
	other, err := Open(path, Task{Command: "import", Work: "other content"}, &at)
	if err != nil || other.ID != "" || !other.Used || at.Line != 5 {
		t.Fatalf("%+v, checkpoint %+v, %v", other, at, err)
	}
	if err := other.Begin(); err != nil || other.FinishedAt != nil {
		t.Fatal(err)
	}
	closed(t, other)
	if _, err := Open(path, Task{Command: "import", Work: work}, nil); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("error %v", err)
	}
}

// With Abandon, Open also opens the journal of another unfinished task. That task can still
// continue until Begin is called.
func TestAnotherTaskCanBeAbandoned(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	first, _ := begin(t, path)
	if _, err := Open(path, Task{Command: "import", Work: "other content", Abandon: true}, nil); err == nil || !strings.Contains(err.Error(), "is running") {
		t.Errorf("while the other runs: %v", err)
	}
	closed(t, first)
	other, err := Open(path, Task{Command: "import", Work: "other content", Abandon: true}, nil)
	if err != nil || other.ID != "" || !other.Used {
		t.Fatalf("%+v, %v", other, err)
	}
	closed(t, other)
	same, _ := begin(t, path)
	if same.ID != first.ID || !same.Used || first.Used {
		t.Errorf("%+v after %+v", same, first)
	}
	closed(t, same)
	if other, err = Open(path, Task{Command: "import", Work: "other content", Abandon: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Begin(); err != nil {
		t.Fatal(err)
	}
	closed(t, other)
	if _, err := Open(path, Task{Command: "import", Work: work}, nil); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("error %v", err)
	}
}
