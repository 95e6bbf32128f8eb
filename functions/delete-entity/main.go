// Command delete-entity serves POST /delete_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("delete-entity", bootstrap.Entities, bootstrap.Erasures) }
