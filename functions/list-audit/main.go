// Command list-audit serves GET /audit.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("list-audit", bootstrap.Audit) }
