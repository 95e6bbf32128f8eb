// Command get-event serves GET /event/{id}.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("get-event", bootstrap.Events) }
