// Package awsconfig reads the configuration of the AWS SDK from where a function
// always has it: the environment. docs/decisions/0010-what-the-functions-link.md
// says why it does not use the SDK's own search.
package awsconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

// connections are kept for the next request. A list of events makes as many
// calls at once; of what is above, the SDK's ten, it would close the rest
// after each and open them anew.
const connections = 16

// Load makes a configuration of the SDK's own environment variables, those that
// config.EnvConfig lists; files and other services are not asked. It is an error
// if AWS_REGION, AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is missing, or another
// variable holds what it must not. AWS_CA_BUNDLE is not read (Go itself reads
// SSL_CERT_FILE), nor what is about checksums, which s3files decides.
func Load() (aws.Config, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
	}
	if env.Region == "" {
		return aws.Config{}, errors.New("load AWS configuration: the environment has no AWS_REGION")
	}
	if !env.Credentials.HasKeys() {
		return aws.Config{}, errors.New("load AWS configuration: the environment has no AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY")
	}
	sdk := aws.Config{
		Region:      env.Region,
		Credentials: credentials.StaticCredentialsProvider{Value: env.Credentials},
		HTTPClient:  awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = connections }),
		Logger:      logging.NewStandardLogger(os.Stderr),
		// Of these the clients of services read what is theirs: endpoints, and
		// whether they are to be FIPS or dual-stack ones.
		ConfigSources:              []any{env},
		DefaultsMode:               cmp.Or(env.DefaultsMode, aws.DefaultsModeLegacy),
		RuntimeEnvironment:         aws.RuntimeEnvironment{EnvironmentIdentifier: "AWS_Lambda", Region: env.Region},
		RetryMode:                  env.RetryMode,
		RetryMaxAttempts:           env.RetryMaxAttempts,
		AppID:                      env.AppID,
		AccountIDEndpointMode:      cmp.Or(env.AccountIDEndpointMode, aws.AccountIDEndpointModePreferred),
		DisableClockSkewCorrection: aws.ToBool(env.DisableClockSkewCorrection),
		AuthSchemePreference:       env.AuthSchemePreference,
	}
	if env.BaseEndpoint != "" && !aws.ToBool(env.IgnoreConfiguredEndpoints) {
		sdk.BaseEndpoint = &env.BaseEndpoint
	}
	return sdk, nil
}
