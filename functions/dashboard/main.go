// Command dashboard serves the dashboard (GET /dashboard and GET /dashboard/{proxy+}),
// redirects browsers from GET / to it, and sets or deletes the session cookie (POST and DELETE
// /dashboard/session).
package main

import (
	"sluice/functions/internal/bootstrap"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("dashboard", func(_ bootstrap.Clients, stores *httpapi.Stores) error {
		stores.Dashboard = dashboard.Files()
		return nil
	})
}
