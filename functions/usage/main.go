// Command usage serves GET /usage.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("usage", bootstrap.Usage, bootstrap.Keys) }
