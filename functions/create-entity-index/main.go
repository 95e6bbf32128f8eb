// Command create-entity-index serves POST /create_entity_index.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-entity-index", bootstrap.Declarations, bootstrap.Audit) }
