package main

import (
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/record"
)

// resourceNames are the completions of the first argument of the commands import, export and
// sync. These commands also accept the singular.
var resourceNames = []string{record.Entity.Plural(), record.Event.Plural()}

// noun has the words for the records of r.
func noun(r record.Resource) progress.Noun {
	return progress.Noun{One: string(r), Many: r.Plural()}
}

// parseResource parses the first argument of a command.
func parseResource(command, name string) (record.Resource, error) {
	for _, r := range []record.Resource{record.Entity, record.Event} {
		if name == string(r) || name == r.Plural() {
			return r, nil
		}
	}
	return "", usageError("%s entities or events, not %q", command, name)
}
