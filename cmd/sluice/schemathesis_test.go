package main

import (
	"os/exec"
	"testing"

	"sluice/internal/test/child"
)

// Schemathesis generates requests from openapi.yaml. None may cause a server error or an
// undocumented response. Two checks are off: positive_data_acceptance, because no schema
// describes which cursors are valid, and negative_data_rejection, because the service accepts
// a batch in which only some events are valid.
func TestSchemathesis(t *testing.T) {
	t.Parallel()
	tester := child.Cached(t, "schemathesis/bin/schemathesis")
	requireProgram(t, tester, "run: make schemathesis")
	dir := t.TempDir()
	s := startIn(t, []string{"AUTH_MODE=api-key", "ADMIN_ROUTES=on", "DATA_DIR=" + dir, "LIMIT_RECORDS=1000000", "LIMIT_IMPORTS=900", "LIMIT_REQUESTS=900"})
	cmd := exec.CommandContext(t.Context(), tester, "run", s.url+"/openapi.yaml",
		"--header", "Authorization: Bearer "+createKey(t, []string{"DATA_DIR=" + dir}, "--scope", "import,export,dashboard"),
		"--checks", "all", "--exclude-checks", "positive_data_acceptance,negative_data_rejection",
		"--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--no-color", "--generation-deterministic")
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
