// Command health serves GET /health.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("health", bootstrap.Entities, bootstrap.Events) }
