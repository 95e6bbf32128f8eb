// Command list-event serves GET /event.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-event", bootstrap.IndexedEvents) }
