// Command list-entity serves GET /entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-entity", bootstrap.IndexedEntities) }
