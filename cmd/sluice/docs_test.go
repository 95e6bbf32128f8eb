package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commandInDocs = regexp.MustCompile(`(?m)^ {4,}.*?\b(?:go run \./cmd/)?sluice (?:sluice )?([a-z][^$#|>)\n]*)`)
	option        = regexp.MustCompile(` (--?[a-z-]+)`)
)

// Each command of sluice in a code block of the docs exists and has the options that the page uses.
func TestCommandsOfTheDocsExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	helps := make(map[string]string)
	seen := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandInDocs.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			seen++
			name, _, _ := strings.Cut(m[1]+" ", " -")
			help, ok := helps[name]
			if !ok {
				stdout, stderr, code := run(t, sluiceCommand(t, "", append(strings.Fields(name), "--help")...))
				if code != 0 || !strings.Contains(stdout, "sluice "+strings.Fields(name)[0]) {
					t.Errorf("%s: sluice %s: exit code %d, %s%s", page, m[1], code, stdout, stderr)
				}
				help, helps[name] = stdout, stdout
			}
			for _, o := range option.FindAllStringSubmatch(" "+m[1], -1) {
				if !regexp.MustCompile(`(^|[ ,])` + o[1] + `[ ,]`).MatchString(help) {
					t.Errorf("%s: sluice %s has no option %s", page, name, o[1])
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d commands were found, so this test reads the wrong thing", seen)
	}
}
