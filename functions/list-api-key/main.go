// Command list-api-key serves GET /api_key.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-api-key", bootstrap.Keys) }
