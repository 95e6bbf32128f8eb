// Command create-api-key serves POST /create_api_key.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("create-api-key", bootstrap.Keys, bootstrap.LimitRows, bootstrap.Audit) }
