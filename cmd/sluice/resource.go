package main

import (
	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/exportjob"
)

// resourceNames are the completions of the first argument of the commands import, export and
// sync. These commands also accept the singular.
var resourceNames = []string{"entities", "events"}

// nouns has the words for the records of each resource.
var nouns = map[exportjob.Resource]progress.Noun{
	exportjob.Entity: {One: "entity", Many: "entities"},
	exportjob.Event:  {One: "event", Many: "events"},
}

// parseResource parses the first argument of a command.
func parseResource(command, name string) (exportjob.Resource, error) {
	for resource, noun := range nouns {
		if name == noun.One || name == noun.Many {
			return resource, nil
		}
	}
	return "", usageError("%s entities or events, not %q", command, name)
}
