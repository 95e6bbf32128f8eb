// Command list-entity-index is the function of the route GET /entity_index.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-entity-index", bootstrap.Indexes) }
