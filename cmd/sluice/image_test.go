package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/test/child"
)

func docker(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", args...)
	cmd.Dir = child.ModuleRoot(t)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("docker %s: %v\n%s%s", args[0], err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

// The Dockerfile's image serves the API, with API keys, as a user who can write only to /data.
func TestTheImageServes(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "docker", "version", "--format", "engine {{.Server.Version}}").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "engine ") {
		t.Skipf("THE DOCKERFILE WAS NOT BUILT, because no Docker engine runs here. That is no failure, not even with CI set: .ci/run installs no engine. (%v: %.200s)", err, out)
	}
	proxy, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	base := "golang:" + strings.TrimPrefix(runtime.Version(), "go")
	if exec.CommandContext(t.Context(), "docker", "image", "inspect", base).Run() != nil {
		out, err := exec.CommandContext(t.Context(), "docker", "pull", base).CombinedOutput()
		child.Require(t, err, fmt.Sprintf("The Docker engine cannot pull %s: %.200s", base, out))
	}
	name := fmt.Sprintf("sluice-test-%x", time.Now().UnixNano())
	docker(t, "build", "--build-arg", "GOPROXY="+strings.TrimSpace(string(proxy)), "-t", name, ".")
	t.Cleanup(func() {
		// The container or image may not exist. The test's context has ended, so it cannot be used.
		exec.Command("docker", "rm", "--force", "--volumes", name).Run() //nolint:errcheck // as described
		exec.Command("docker", "rmi", name).Run()                        //nolint:errcheck // as described
	})
	container, err := child.Start(exec.Command("docker", "run", "--name", name, "--read-only", "--cap-drop", "ALL", "-p", "127.0.0.1::3000", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := container.ReadyText(t.Context(), `Sluice listens on (\S+)`); err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + docker(t, "port", name, "3000/tcp")}
	c := s.client(t)
	c.want(t, http.StatusOK, "GET", "/health", "")
	c.want(t, http.StatusUnauthorized, "GET", "/entity", "")
	key := docker(t, "exec", name, "/sluice", "keys", "create", "--scope", "import")
	if r := c.do(t, "POST", "/create_entity", `{"id":"ada"}`, "Authorization", "Bearer "+key); r.status != http.StatusCreated {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if user := docker(t, "image", "inspect", "--format", "{{.Config.User}}", name); user != "65532:65532" {
		t.Errorf("the image runs as %q", user)
	}
}
