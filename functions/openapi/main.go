// Command openapi serves GET /openapi.yaml.
package main

import (
	"sluice"
	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("openapi", func(_ bootstrap.Clients, stores *httpapi.Stores) error {
		stores.OpenAPI = sluice.OpenAPI
		return nil
	})
}
