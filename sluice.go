// Package sluice embeds the deployment template and the API description, so that the local
// server, the tests and the function openapi use the same files as the deployment.
package sluice

import _ "embed"

// Template is template.yaml, the AWS SAM template at the root of the repository. Package
// template parses it. Callers must not modify Template.
//
//go:embed template.yaml
var Template []byte

// OpenAPI is openapi.yaml, the description of the API. Callers must not modify OpenAPI.
//
//go:embed openapi.yaml
var OpenAPI []byte
