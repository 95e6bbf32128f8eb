// Package bootstrap runs each route's function on AWS Lambda. It reads the configuration,
// opens the stores of counters, limits and API keys, and adapts API Gateway events to the
// handlers of package httpapi.
package bootstrap

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// connectTimeout is the longest that connect may take. Lambda allows ten seconds for init. If
// connect fails, the first request opens the connections that it needs.
const connectTimeout = time.Second

// Clients holds the AWS clients and the clock with which a function opens its stores.
type Clients struct {
	AWS      aws.Config
	DynamoDB *dynamodb.Client
	Clock    entity.Clock
}

// Start runs a function, such as "list-entity", with the stores that the openers open. It does
// not return: if the function cannot be set up, Start exits the process.
func Start(name string, openers ...Opener) {
	f, err := newFunction(context.Background(), name, os.Getenv, openers)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.Invoke)
}

// newFunction reads the environment variables that template.yaml sets and those of the AWS
// SDK, and connects to DynamoDB.
func newFunction(ctx context.Context, name string, getenv func(string) string, openers []Opener) (*function, error) {
	cfg, err := httpapi.LoadConfig(getenv)
	if err == nil {
		err = cfg.CheckAdmin(false)
	}
	if err != nil {
		return nil, err
	}
	sdk, err := LoadAWS(ctx)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	clients := Clients{AWS: sdk, DynamoDB: dynamodb.NewFromConfig(sdk), Clock: entity.Clock{Fault: httpapi.ClockFaults(logger, cfg.Service)}}
	counters, err := dynamo.OpenCounters(clients.DynamoDB, getenv)
	if err != nil {
		return nil, err
	}
	counters.FloorFault = httpapi.FloorFaults(logger, cfg.Service)
	limits, err := dynamo.OpenLimits(clients.DynamoDB, getenv)
	if err != nil {
		return nil, err
	}
	rows, err := ratelimit.NewRowCache(limits, ratelimit.RowCacheConfig{MaxAge: cfg.LimitsMaxAge})
	if err != nil {
		return nil, err
	}
	limiter, err := cfg.Limiter(counters, memory.NewCounters())
	if err != nil {
		return nil, err
	}
	keys, err := authenticator(cfg, clients.DynamoDB, getenv)
	if err != nil {
		return nil, err
	}
	service, err := dynamo.OpenService(clients.DynamoDB, getenv)
	if err != nil {
		return nil, err
	}
	id := httpapi.NewServiceID(service.ID)
	var stores httpapi.Stores
	for _, open := range openers {
		if err := open(clients, &stores); err != nil {
			return nil, err
		}
	}
	api, err := httpapi.NewFunction(name, limiter, stores, httpapi.Options{Config: cfg, Access: keys, Rows: rows, ServiceID: id, RequestID: requestID, Fits: fits, LogsConsole: logsConsole(sdk.Region), Logger: logger})
	if err != nil {
		return nil, err
	}
	reads := []func(context.Context) error{rows.Refresh, id.Refresh}
	if stores.Indexes != nil {
		reads = append(reads, stores.Indexes.Refresh)
	}
	if err := connect(ctx, reads, counters, Connections(name)); err != nil {
		logger.Warn("init could not read from DynamoDB", "error", err.Error())
	}
	return adapt(api, func(method string) http.Handler { return api.Malformed(name, method) }), nil
}

// logsConsole returns the URL of CloudWatch Logs Insights.
func logsConsole(region string) string {
	return fmt.Sprintf("https://%[1]s.console.aws.amazon.com/cloudwatch/home?region=%[1]s#logsV2:logs-insights", region)
}

// Connections returns how many connections a function needs for its first request: one, unless that
// makes concurrent calls. Each that init does not open to read costs a write unit, and a thousand
// instances may start at once, so the most is 10 (see docs/quotas.md). A batch opens more, up to
// httpapi.BatchWriters, only when it needs them.
func Connections(function string) int {
	batch := func(r httpapi.Route) bool { return r.Name == function && r.Batch() }
	switch {
	case slices.ContainsFunc(httpapi.Routes(), batch):
		return 10
	case function == "usage":
		return dynamo.UsageReaders
	default:
		return 1
	}
}

// connect calls the reads side by side, so that init waits for DynamoDB once. Each opens a
// connection. If the first request needs more, connect opens the others, too.
func connect(ctx context.Context, reads []func(context.Context) error, counters *dynamo.Counters, count int) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var calls errgroup.Group
	for _, read := range reads {
		calls.Go(func() error { return read(ctx) })
	}
	for range count - len(reads) {
		calls.Go(func() error { return counters.Connect(ctx) })
	}
	return calls.Wait()
}

// authenticator returns nil if API keys are off or the function has no table of keys. Only the
// function of a public route may lack that table.
func authenticator(cfg httpapi.Config, client *dynamodb.Client, getenv func(string) string) (*access.Authenticator, error) {
	if cfg.AccessOff || getenv("KEYS_TABLE") == "" {
		return nil, nil
	}
	store, err := dynamo.OpenKeys(client, getenv)
	if err != nil {
		return nil, err
	}
	return access.NewAuthenticator(store, nil)
}
