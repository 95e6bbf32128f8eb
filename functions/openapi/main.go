// Command openapi is the function of the route GET /openapi.yaml.
package main

import (
	"sluice"
	"sluice/functions/internal/bootstrap"
	"sluice/pkg/httpapi"
)

func main() {
	bootstrap.Start("openapi", func(bootstrap.Clients) (httpapi.Stores, error) {
		return httpapi.Stores{OpenAPI: sluice.OpenAPI}, nil
	})
}
