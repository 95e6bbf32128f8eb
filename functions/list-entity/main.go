// Command list-entity is the function of the route GET /entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-entity", bootstrap.IndexedEntities) }
