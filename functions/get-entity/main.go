// Command get-entity serves GET /entity/{id}.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("get-entity", bootstrap.Entities) }
