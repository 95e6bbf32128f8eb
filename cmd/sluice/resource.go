package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/record"
)

// resourceNames are the shell completions for the first argument of import, export and sync.
// These commands also accept the singular.
var resourceNames = []string{record.Entity.Plural(), record.Event.Plural()}

func noun(r record.Resource) progress.Noun {
	return progress.Noun{One: string(r), Many: r.Plural()}
}

func parseResource(command, name string) (record.Resource, error) {
	for _, r := range []record.Resource{record.Entity, record.Event} {
		if name == string(r) || name == r.Plural() {
			return r, nil
		}
	}
	return "", usageError("%s entities or events, not %q", command, name)
}

// resourceAndFile requires a resource and a file. Its errors show file as an example file name.
func resourceAndFile(command, file string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		resource, missing := record.Event.Plural(), "entities or events, and a file"
		if len(args) == 1 {
			if _, err := parseResource(command, args[0]); err == nil {
				resource, missing = args[0], "a file after "+args[0]
			} else {
				file, missing = args[0], "entities or events before "+args[0]
			}
		}
		return checkArgs(args, 2, command, missing, resource+" "+file)
	}
}

// checkArgs returns an error unless there are n arguments. In the error, missing says what the
// command still needs, and example shows valid arguments.
func checkArgs(args []string, n int, command, missing, example string) error {
	switch {
	case len(args) > n:
		return fmt.Errorf("%s has one argument too many, %q; for example: sluice %[1]s %[3]s", command, args[n], example)
	case len(args) < n:
		return fmt.Errorf("%s needs %s; for example: sluice %[1]s %[3]s", command, missing, example)
	}
	return nil
}
