// Command update-entity serves POST /update_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("update-entity", bootstrap.IndexedEntities) }
