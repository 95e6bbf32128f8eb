// Package sluice carries the deployment template of the service, so that the
// local server and the tests take their routes and tables from the same
// definition as AWS.
package sluice

import _ "embed"

// Template is template.yaml, the AWS SAM template at the root of the
// repository. Package template parses it. It must not be changed.
//
//go:embed template.yaml
var Template []byte
