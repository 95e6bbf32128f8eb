package main

import (
	"strings"
	"testing"
)

// An empty filter, as from a shell variable that is not set, does not select
// everything.
func TestEmptyFlagValuesAreRejected(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"export event -o - --entity-id=", "export event -o - --from=", "export event -o - --to=", "export entity -o - --type=",
		"export entity -o - --csv-formulas=", "export entity -o e.csv --format=",
		"keys list --workspace=", "keys create --scope import --workspace=", "keys create --scope import --expires-in=", "usage --once --address=",
	} {
		words := strings.Fields(args)
		flag, _, _ := strings.Cut(words[len(words)-1], "=")
		out, stderr, code := run(t, sluiceCommand(t, nowhere, words...))
		if want := "sluice: " + flag + " is empty; give it a value or leave it out\n"; code != exitUsage || stderr != want || out != "" {
			t.Errorf("%s: exit code %d, %q%q; want %q", args, code, out, stderr, want)
		}
	}
}
