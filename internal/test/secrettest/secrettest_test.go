package secrettest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/pkg/access"
)

// TestASecretThatIsWrittenFailsTheTests starts this test binary again with the environment
// variable SECRETTEST. In that process, TestMain calls Run.
func TestMain(m *testing.M) {
	if os.Getenv("SECRETTEST") == "" {
		os.Exit(m.Run())
	}
	os.Exit(Run(m))
}

func TestASecretThatIsWrittenFailsTheTests(t *testing.T) {
	if how := os.Getenv("SECRETTEST"); how != "" {
		write(t, how)
		return
	}
	for how, ok := range map[string]bool{"stdout": false, "stderr": false, "log": false, "child": false, "nothing": true} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestASecretThatIsWrittenFailsTheTests$")
		cmd.Env = append(os.Environ(), "SECRETTEST="+how)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if (err == nil) != ok || strings.Contains(stderr.String(), "the secret of an API key was written by") == ok {
			t.Errorf("%s: %v, %s", how, err, &stderr)
		}
	}
}

func write(t *testing.T, how string) {
	_, token := New(t, access.Key{Workspace: "w", Scopes: access.Scopes()}, time.Now())
	text := fmt.Sprintln(token, "is not its secret")
	if how != "nothing" {
		text = fmt.Sprintln("the key is", token.Reveal())
	}
	switch how {
	case "stdout":
		fmt.Print(text)
	case "stderr":
		fmt.Fprint(os.Stderr, text)
	case "log":
		fmt.Fprint(Writer("a log"), text[:20])
		fmt.Fprint(Writer("a log"), text[20:]) // Run must find a secret that is written in two parts
	case "child":
		Collect("another program", text)
	}
}
