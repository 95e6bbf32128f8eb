// Command create-event serves POST /create_event.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-event", bootstrap.IndexedEvents) }
