// Command dashboard is the function of the dashboard: its page (GET /dashboard and GET
// /dashboard/{proxy+}) and its session.
package main

import (
	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("dashboard", func(bootstrap.Clients) (httpapi.Stores, error) {
		return httpapi.Stores{Dashboard: dashboard.Files()}, nil
	})
}
