// Command remove-entity-index serves POST /remove_entity_index.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("remove-entity-index", bootstrap.Declarations, bootstrap.Audit) }
