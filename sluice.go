// Package sluice carries the deployment template and the API description of the
// service, so that the local server, the functions and the tests take them from
// the same files as everybody else.
package sluice

import _ "embed"

// Template is template.yaml, the AWS SAM template at the root of the
// repository. Package template parses it. It must not be changed.
//
//go:embed template.yaml
var Template []byte

// OpenAPI is openapi.yaml, the description of the API. It must not be changed.
//
//go:embed openapi.yaml
var OpenAPI []byte
