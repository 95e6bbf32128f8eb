// Command upsert-entities serves POST /upsert_entities.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("upsert-entities", bootstrap.IndexedEntities) }
