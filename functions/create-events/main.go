// Command create-events is the function of the route POST /create_events.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-events", bootstrap.Events) }
