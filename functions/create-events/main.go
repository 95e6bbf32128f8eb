// Command create-events serves POST /create_events.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-events", bootstrap.IndexedEvents) }
