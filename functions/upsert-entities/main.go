// Command upsert-entities is the function of the route POST /upsert_entities.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("upsert-entities", bootstrap.IndexedEntities) }
