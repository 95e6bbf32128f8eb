// Command update-entity is the function of the route POST /update_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("update-entity", bootstrap.IndexedEntities) }
