// Command create-entity is the function of the route POST /create_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-entity", bootstrap.IndexedEntities) }
