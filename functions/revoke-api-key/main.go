// Command revoke-api-key serves POST /revoke_api_key.
package main

import "sluice/functions/internal/bootstrap"

func main() { bootstrap.Start("revoke-api-key", bootstrap.Keys, bootstrap.Audit) }
