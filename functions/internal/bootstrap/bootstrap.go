// Package bootstrap is what the mains of all functions share: the
// configuration, the DynamoDB client, the limiter and the check of access keys,
// made once per instance.
package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/access"
	accessdynamo "sluice/pkg/access/dynamostore"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/memstore"
)

// connectTimeout bounds what the init phase waits for DynamoDB. Lambda allows
// it ten seconds in all, and the first request tries again.
const connectTimeout = time.Second

// Instance is one function instance.
type Instance struct {
	AWS      aws.Config
	DynamoDB *dynamodb.Client

	config  httpapi.Config
	limiter *ratelimit.Limiter
	access  *access.Authenticator // nil where access is off, and where KEYS_TABLE names no table
	logger  *slog.Logger
}

// New reads the configuration, makes the clients and connects to DynamoDB, so
// that the first request need not. A failure to connect is logged: the requests
// have their own answer to it. getenv reads the variables of template.yaml; the
// SDK reads its own from the environment.
func New(ctx context.Context, getenv func(string) string) (*Instance, error) {
	return NewWith(ctx, getenv, 1)
}

// NewWith is New for a function whose first request makes that many calls at
// the same time.
func NewWith(ctx context.Context, getenv func(string) string, atOnce int) (*Instance, error) {
	cfg, err := httpapi.LoadConfig(getenv)
	if err != nil {
		return nil, err
	}
	sdk, err := LoadAWS(ctx)
	if err != nil {
		return nil, err
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
	keys, err := authenticator(cfg, client, getenv("KEYS_TABLE"))
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	connect(ctx, counters, atOnce, logger)
	return &Instance{AWS: sdk, DynamoDB: client, config: cfg, limiter: limiter, access: keys, logger: logger}, nil
}

// connect makes connections by as many calls at the same time.
func connect(ctx context.Context, counters *dynamostore.Store, atOnce int, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			if err := counters.Connect(ctx); err != nil {
				logger.Warn("the init phase has made no connection", "error", err.Error())
			}
		})
	}
	wg.Wait()
}

// authenticator checks keys by the table. Functions of public routes have none,
// and may read none; those of other routes do not start without.
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

// Handler makes the handler of a route, whose Invoke goes to lambda.Start.
func (i *Instance) Handler(route string, stores httpapi.Stores) (*httpapi.Handler, error) {
	return httpapi.NewHandler(route, i.limiter, stores, httpapi.Options{
		Access: i.access, AccessOff: i.config.AccessOff,
		IPv6Prefix: i.config.IPv6Prefix, ClientIPHeader: i.config.ClientIPHeader, Logger: i.logger, Service: i.config.Service,
	})
}
