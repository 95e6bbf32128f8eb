// Command not-found serves the default route.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("not-found") }
