package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"sluice"
	"sluice/pkg/access"
	accessbolt "sluice/pkg/access/boltstore"
	accessdynamo "sluice/pkg/access/dynamostore"
	"sluice/pkg/dynamotable"
	entitybolt "sluice/pkg/entity/boltstore"
	entitydynamo "sluice/pkg/entity/dynamostore"
	eventbolt "sluice/pkg/event/boltstore"
	eventdynamo "sluice/pkg/event/dynamostore"
	jobbolt "sluice/pkg/exportjob/boltstore"
	jobdynamo "sluice/pkg/exportjob/dynamostore"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit"
	counterdynamo "sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/memstore"
	"sluice/pkg/template"
)

// backend is where the service keeps its data.
type backend struct {
	counters   ratelimit.Store
	stores     httpapi.Stores
	jobs       jobStore // of export jobs
	keys       access.Store
	records    string // where records are, for people
	countersIn string // where counters are, for people
	keyFlags   string // flags of "sluice keys" for the same keys
	close      func() error
}

// openEmbedded returns a backend with records in a file in dir, which it creates
// if needed, and counters in memory.
func openEmbedded(dir string) (*backend, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, "sluice.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another process; stop it, or choose another directory with --data-dir or DATA_DIR", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// Writers that arrive within this time share one sync to disk.
	db.MaxBatchDelay = 2 * time.Millisecond
	counters := memstore.New()
	b := &backend{counters: counters, stores: httpapi.Stores{Usage: counters}, records: path, countersIn: "memory", keyFlags: "--data-dir " + dir, close: db.Close}
	if b.keys, err = accessbolt.New(keysFile(dir)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if b.stores.Entities, err = entitybolt.New(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if b.stores.Events, err = eventbolt.New(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if b.jobs, err = jobbolt.New(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

// localDynamoDB returns a client of a DynamoDB endpoint. The variables of the
// AWS SDK apply; region and credentials have defaults, since a local engine
// accepts any.
func localDynamoDB(ctx context.Context, getenv func(string) string, endpoint string) (*dynamodb.Client, error) {
	var opts []func(*config.LoadOptions) error
	if getenv("AWS_REGION") == "" {
		opts = append(opts, config.WithRegion("us-east-1"))
	}
	if getenv("AWS_ACCESS_KEY_ID") == "" && getenv("AWS_PROFILE") == "" {
		opts = append(opts, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")))
	}
	sdk, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	return dynamodb.NewFromConfig(sdk, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(endpoint) }), nil
}

// localName returns the name of a table at a DynamoDB endpoint unless an
// environment variable names another.
func localName(table template.Table) string { return "sluice-" + table.LogicalID }

// openDynamoDB returns a backend with all data in tables at a DynamoDB endpoint.
// It creates the template's tables that are missing, with the names that their
// environment variables give, as in a deployment.
func openDynamoDB(ctx context.Context, getenv func(string) string, endpoint string) (*backend, error) {
	client, err := localDynamoDB(ctx, getenv, endpoint)
	if err != nil {
		return nil, err
	}
	tmpl, err := template.Parse(sluice.Template)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string) // by logical id
	for _, table := range tmpl.Tables {
		name := cmp.Or(getenv(table.EnvVar()), localName(table))
		if err := dynamotable.Create(ctx, client, table, name); err != nil {
			return nil, fmt.Errorf("use %s: %w", endpoint, err)
		}
		names[table.LogicalID] = name
	}
	b := &backend{records: endpoint, countersIn: endpoint, keyFlags: "--dynamodb " + endpoint, close: func() error { return nil }}
	if b.counters, err = counterdynamo.New(client, names["CountersTable"]); err != nil {
		return nil, err
	}
	if b.stores.Usage, err = counterdynamo.NewUsage(client, names["CountersTable"]); err != nil {
		return nil, err
	}
	if b.stores.Entities, err = entitydynamo.New(client, names["EntitiesTable"]); err != nil {
		return nil, err
	}
	if b.keys, err = accessdynamo.New(client, names[keysTable]); err != nil {
		return nil, err
	}
	shards, err := eventdynamo.LoadConfig(getenv)
	if err != nil {
		return nil, err
	}
	if b.stores.Events, err = eventdynamo.New(client, names["EventsTable"], shards); err != nil {
		return nil, err
	}
	if b.jobs, err = jobdynamo.New(client, names["ExportJobsTable"]); err != nil {
		return nil, err
	}
	return b, nil
}
