// Command create-entity serves POST /create_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-entity", bootstrap.IndexedEntities) }
