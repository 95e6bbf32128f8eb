// Command list-entity-index serves GET /entity_index.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-entity-index", bootstrap.Indexes) }
