// Command set-api-key-plan serves POST /set_api_key_plan.
package main

import "sluice/functions/internal/bootstrap"

func main() {
	bootstrap.Start("set-api-key-plan", bootstrap.Keys, bootstrap.LimitRows, bootstrap.Audit)
}
