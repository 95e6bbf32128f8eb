// Command list-event is the function of the route GET /event.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-event", bootstrap.Events) }
