// Package bootstrap runs the functions of the routes on AWS Lambda: it reads the
// configuration, opens the counters, the rows of limits and the table of API keys,
// and adapts API Gateway events to the handlers of package httpapi.
package bootstrap

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/access"
	accessdynamo "sluice/pkg/access/dynamostore"
	"sluice/pkg/httpapi"
	"sluice/pkg/override"
	overridedynamo "sluice/pkg/override/dynamostore"
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/memstore"
)

// connectTimeout bounds the wait for DynamoDB during init. Lambda allows init
// ten seconds in all, and the first request connects if init could not.
const connectTimeout = time.Second

// Clients are what the main of a function opens its stores with.
type Clients struct {
	AWS      aws.Config
	DynamoDB *dynamodb.Client
}

// Start runs the function with the name of a route, such as "list-entity". open
// returns the stores that the route needs; nil if it needs none. Start ends the
// process if the function cannot be set up, and does not return otherwise.
func Start(name string, open func(Clients) (httpapi.Stores, error)) {
	f, err := newFunction(context.Background(), name, os.Getenv, open)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.Invoke)
}

// newFunction returns the function that the environment variables of
// template.yaml describe, connected to DynamoDB. The SDK reads its own variables
// from the environment.
func newFunction(ctx context.Context, name string, getenv func(string) string, open func(Clients) (httpapi.Stores, error)) (*function, error) {
	cfg, err := httpapi.LoadConfig(getenv)
	if err != nil {
		return nil, err
	}
	sdk, err := LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	clients := Clients{AWS: sdk, DynamoDB: dynamodb.NewFromConfig(sdk)}
	counters, err := dynamostore.New(clients.DynamoDB, getenv("COUNTERS_TABLE"))
	if err != nil {
		return nil, fmt.Errorf("COUNTERS_TABLE: %w", err)
	}
	rows, err := overrides(cfg, clients.DynamoDB, getenv("LIMITS_TABLE"))
	if err != nil {
		return nil, err
	}
	limiter, err := cfg.Limiter(counters, memstore.New(), rows)
	if err != nil {
		return nil, err
	}
	keys, err := authenticator(cfg, clients.DynamoDB, getenv("KEYS_TABLE"))
	if err != nil {
		return nil, err
	}
	var stores httpapi.Stores
	if open != nil {
		if stores, err = open(clients); err != nil {
			return nil, err
		}
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	api, err := httpapi.NewFunction(name, limiter, stores, httpapi.Options{
		Access: keys, AccessOff: cfg.AccessOff, Overrides: rows, IPv6Prefix: cfg.IPv6Prefix, ClientIPHeader: cfg.ClientIPHeader, OriginSecrets: cfg.OriginSecrets,
		ExportJobs: cfg.ExportJobs, EventRetentionDays: cfg.EventRetentionDays, RequestID: requestID, Logger: logger, Service: cfg.Service,
	})
	if err != nil {
		return nil, err
	}
	// One after the other: connect uses the connection that Refresh has opened.
	if err := rows.Refresh(ctx); err != nil {
		logger.Warn("init could not read the rows of limits", "error", err.Error())
	}
	if err := connect(ctx, counters, connections[name]); err != nil {
		logger.Warn("init could not connect to DynamoDB", "error", err.Error())
	}
	return adapt(api, api.Malformed(name), logger), nil
}

// connections is how many calls the first request of a function makes at the
// same time, where that is more than one.
var connections = map[string]int{
	"create-events":   httpapi.BatchWriters,
	"upsert-entities": httpapi.BatchWriters,
	"usage":           dynamostore.UsageReaders,
}

// connect opens as many connections to DynamoDB, at least one, so that the first
// request need not.
func connect(ctx context.Context, counters *dynamostore.Store, count int) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var calls errgroup.Group
	for range max(count, 1) {
		calls.Go(func() error { return counters.Connect(ctx) })
	}
	return calls.Wait()
}

// overrides returns the cache of the rows in a table.
func overrides(cfg httpapi.Config, client *dynamodb.Client, table string) (*override.Cache, error) {
	store, err := overridedynamo.New(client, table)
	if err != nil {
		return nil, fmt.Errorf("LIMITS_TABLE: %w", err)
	}
	return override.NewCache(store, override.CacheConfig{MaxAge: cfg.LimitsMaxAge})
}

// authenticator returns the check of API keys, or nil if keys are off or the
// function has no table of keys. Only functions with public routes have none:
// the others do not start without one.
func authenticator(cfg httpapi.Config, client *dynamodb.Client, table string) (*access.Authenticator, error) {
	if cfg.AccessOff || table == "" {
		return nil, nil
	}
	store, err := accessdynamo.New(client, table)
	if err != nil {
		return nil, err
	}
	return access.NewAuthenticator(store, nil)
}
