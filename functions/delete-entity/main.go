// Command delete-entity is the function of the route POST /delete_entity.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("delete-entity", bootstrap.Entities, bootstrap.ErasureJobs) }
