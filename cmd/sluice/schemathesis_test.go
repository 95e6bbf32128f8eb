package main

import (
	"os/exec"
	"testing"

	"sluice/internal/test/child"
)

// A tester that makes its requests out of openapi.yaml gets no server error and
// no response that is not described. Two of its checks are left out: that what
// fits the schemas is accepted, for no schema tells a real cursor from another,
// and that what does not is refused, for a batch takes its good events beside
// bad ones.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	tester := child.Cached(t, "schemathesis/bin/schemathesis")
	need(t, tester, "run: make schemathesis")
	dir := t.TempDir()
	s := startIn(t, []string{"AUTH_MODE=api-key", "DATA_DIR=" + dir, "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900"})
	cmd := exec.CommandContext(t.Context(), tester, "run", s.url+"/openapi.yaml",
		"--header", "Authorization: Bearer "+createKey(t, []string{"DATA_DIR=" + dir}, "--scope", "import,export,dashboard"),
		"--checks", "all", "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
		"--phases", "examples,coverage,fuzzing", "--max-examples", "50", "--no-color", "--generation-deterministic")
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	s.stop(t)
}
