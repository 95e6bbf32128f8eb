// Command set-limit serves POST /set_limit.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("set-limit", bootstrap.LimitRows, bootstrap.Audit) }
