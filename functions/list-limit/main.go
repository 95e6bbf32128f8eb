// Command list-limit serves GET /limit.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-limit", bootstrap.LimitRows) }
