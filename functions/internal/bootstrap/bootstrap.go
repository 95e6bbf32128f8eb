// Package bootstrap is what the mains of all functions share: the
// configuration, the DynamoDB client and the limiter, made once per instance.
package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/memstore"
)

// Instance is one function instance.
type Instance struct {
	DynamoDB *dynamodb.Client

	config  httpapi.Config
	limiter *ratelimit.Limiter
	logger  *slog.Logger
}

// New reads the configuration and makes the clients. getenv reads the
// variables of template.yaml; the SDK reads its own from the environment.
func New(ctx context.Context, getenv func(string) string) (*Instance, error) {
	cfg, err := httpapi.LoadConfig(getenv)
	if err != nil {
		return nil, err
	}
	sdk, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	client := dynamodb.NewFromConfig(sdk)
	counters, err := dynamostore.New(client, getenv("COUNTERS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("COUNTERS_TABLE: %w", err)
	}
	limiter, err := cfg.Limiter(counters, memstore.New())
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	return &Instance{DynamoDB: client, config: cfg, limiter: limiter, logger: logger}, nil
}

// Handler makes the handler of a route, whose Invoke goes to lambda.Start.
func (i *Instance) Handler(route string, stores httpapi.Stores) (*httpapi.Handler, error) {
	return httpapi.NewHandler(route, i.limiter, stores, httpapi.Options{
		IPv6Prefix: i.config.IPv6Prefix, ClientIPHeader: i.config.ClientIPHeader, Logger: i.logger, Service: i.config.Service,
	})
}
