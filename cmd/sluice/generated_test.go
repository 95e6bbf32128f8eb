package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"sluice/internal/test/child"
	"sluice/pkg/index"
)

// openAPITools is where "make openapi-tools" installs its programs.
const openAPITools = "openapi-tools"

func tool(t *testing.T, dir string, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "GOFLAGS=-mod=mod")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return out
}

// node returns the path of a program that npm has installed into a folder of .cache.
func node(t *testing.T, folder, name string) string {
	return child.Cached(t, filepath.Join(folder, "node_modules", ".bin", name))
}

func openAPIFile(t *testing.T) string {
	return filepath.Join(child.ModuleRoot(t), "openapi.yaml")
}

func TestOpenAPILinters(t *testing.T) {
	t.Parallel()
	requireProgram(t, node(t, openAPITools, "spectral"), "run: make openapi-tools")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(`extends: ["spectral:oas"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, dir, node(t, openAPITools, "spectral"), "lint", "--fail-severity", "error", "--ruleset", "rules.yaml", openAPIFile(t))
	tool(t, dir, node(t, openAPITools, "redocly"), "lint", openAPIFile(t))
}

// The clients create, read, list and find entities, some with numbers that a float64 cannot
// represent.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	const typescript = "typescript-client"
	requireProgram(t, child.Cached(t, openAPITools+"/oapi-codegen"), "run: make openapi-tools")
	requireProgram(t, node(t, typescript, "openapi-typescript"), "run: make typescript-client")
	s := start(t, t.TempDir())
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "email"), 0, "", "")
	wantRun(t, inEnv(t, s.env, "indexes", "add", "person", "born:number"), 0, "", "")
	c := s.clientAt(t, browserAddress)
	c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"found","type":"person","attributes":{"email":"ada+1@example.com","born":1815}}`)
	await(t, "ready", func() bool {
		return !slices.ContainsFunc(s.declarations(t), func(d index.Declaration) bool { return d.State != index.Ready })
	})
	want := []string{"a", "b", "c", "d", "e"}
	for _, id := range want {
		c.want(t, http.StatusCreated, "POST", "/create_entity", `{"id":"`+id+`","attributes":{"huge":1E400,"exact":12345678901234567890}}`)
	}
	for language, run := range map[string]func(t *testing.T, dir string) []byte{
		"go": func(t *testing.T, dir string) []byte {
			tool(t, dir, child.Cached(t, openAPITools+"/oapi-codegen"), "-generate", "types,client", "-package", "main", "-o", "api.go", openAPIFile(t))
			return tool(t, dir, "go", "run", ".", s.url)
		},
		"python": func(t *testing.T, dir string) []byte {
			python := child.Cached(t, openAPITools+"/python/bin/")
			tool(t, dir, python+"/openapi-python-client", "generate", "--path", openAPIFile(t), "--meta", "none", "--output-path", "sluice_client")
			return tool(t, dir, python+"/python", "main.py", s.url)
		},
		"typescript": func(t *testing.T, dir string) []byte {
			if err := os.Symlink(child.Cached(t, typescript+"/node_modules"), filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			tool(t, dir, node(t, typescript, "openapi-typescript"), openAPIFile(t), "--output", "api.d.ts")
			tool(t, dir, node(t, typescript, "tsc"), "--strict", "--module", "nodenext", "--target", "es2022", "--outDir", "out", "main.ts")
			return tool(t, dir, "node", "out/main.js", s.url)
		},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../internal/test/openapitest/testdata", language))); err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := json.Unmarshal(run(t, dir), &got); err != nil {
				t.Fatal(err)
			}
			own := "made-by-" + language
			if !slices.Contains(got, own) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("the client lists %v, want %v and %s", got, want, own)
			}
		})
	}
}
