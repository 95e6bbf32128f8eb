// Command remove-limit serves POST /remove_limit.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("remove-limit", bootstrap.Keys, bootstrap.LimitRows, bootstrap.Audit) }
