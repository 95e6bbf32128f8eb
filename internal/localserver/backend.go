package localserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"sluice"
	"sluice/internal/template"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
	"sluice/pkg/snapshot"
)

type backend struct {
	counters    ratelimit.Store
	stores      httpapi.Stores // all stores except those that openBackground sets
	exportJobs  job.Backlog
	erasureJobs job.Backlog
	serviceID   func(context.Context) (string, error)
	settle      time.Duration // time from the creation of a record until all indexes contain it
	keys        access.Store
	limits      ratelimit.RowStore
	indexes     *indexes     // builds the indexes of this backend; nil if "sluice indexes" builds them
	records     string       // where the records are; printed at start
	countersIn  string       // where the counters are; printed at start
	keyFlags    string       // flags for "sluice keys" that select this backend's API keys
	writable    func() error // returns an error if the disk takes no more data; the field is nil if the records are not on a local disk
	close       func() error
}

func openBackend(ctx context.Context, getenv func(string) string, o Options, clock entity.Clock) (*backend, error) {
	if o.DynamoDB != "" {
		return openDynamoDB(ctx, getenv, o.DynamoDB, clock)
	}
	return openEmbedded(o.DataDir, clock)
}

// openEmbedded keeps records in files in dir and counters in memory. It creates dir if
// necessary.
func openEmbedded(dir string, clock entity.Clock) (*backend, error) {
	dir, err := filepath.Abs(dir) // so that printed commands work in other directories
	if err != nil {
		return nil, err
	}
	if err := CreateDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, recordsFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another process; stop it, or choose another directory with --data-dir or DATA_DIR", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	counters := memory.NewCounters()
	b := &backend{counters: counters, stores: httpapi.Stores{Usage: counters, BatchWriters: httpapi.MaxBatch}, records: path, countersIn: "memory", keyFlags: "--data-dir " + shellWord(dir), writable: func() error { return probe(dir) }, close: db.Close}
	// Stamps follow the order of transactions and are truncated to the millisecond.
	b.settle = time.Millisecond
	var errs [7]error
	var id string
	id, errs[6] = serviceID(dir)
	b.serviceID = func(context.Context) (string, error) { return id, nil }
	b.keys, errs[0] = OpenKeys(dir)
	errs[1] = b.openIndexed(dir, db, clock)
	b.stores.Events, errs[2] = bolt.NewEvents(db, clock.Time)
	b.exportJobs, errs[3] = bolt.NewJobs(db, exportjob.Kind)
	b.limits, errs[4] = OpenLimits(dir)
	b.erasureJobs, errs[5] = bolt.NewJobs(db, erasurejob.Kind)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return b, nil
}

func (b *backend) openIndexed(dir string, db *bbolt.DB, clock entity.Clock) error {
	declarations, err := OpenIndexes(dir)
	if err != nil {
		return err
	}
	current := new(index.Current)
	entities, err := bolt.NewEntities(db, clock, current)
	if err != nil {
		return err
	}
	b.stores.Entities, b.stores.Finder, b.stores.Indexes = entities, entities, current
	b.indexes = newIndexes(declarations, entities, current)
	return b.indexes.load(context.Background())
}

// probe writes a page to a file in dir and then removes the file. Storing a record would not
// always show that the disk is full: the record may fit into a page that bbolt has freed.
func probe(dir string) error {
	name := filepath.Join(dir, probeFile)
	err := os.WriteFile(name, make([]byte, 4096), 0o600)
	if removed := os.Remove(name); err == nil && !errors.Is(removed, fs.ErrNotExist) { // another probe may have removed it
		err = removed
	}
	return err
}

// shellWord quotes dir for a POSIX shell if necessary.
func shellWord(dir string) string {
	if strings.ContainsFunc(dir, func(r rune) bool {
		return !strings.ContainsRune("/._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return dir
}

// openDynamoDB keeps all data except export files in tables at a DynamoDB endpoint.
func openDynamoDB(ctx context.Context, getenv func(string) string, endpoint string, clock entity.Clock) (*backend, error) {
	t, err := openTables(ctx, getenv, endpoint, nil)
	if err != nil {
		return nil, err
	}
	shards, err := dynamo.LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	b := &backend{records: endpoint, countersIn: endpoint, keyFlags: "--dynamodb " + endpoint, close: func() error { return nil }}
	b.settle = record.SyncLag
	var errs [9]error
	b.counters, errs[0] = dynamo.NewCounters(t.client, t.names["CountersTable"])
	b.stores.Usage, errs[1] = dynamo.NewUsage(t.client, t.names["CountersTable"])
	errs[2] = b.openIndexedTable(t, dynamo.EntitiesConfig{Shards: shards, Clock: clock})
	b.stores.Events, errs[3] = dynamo.NewEvents(t.client, t.names["EventsTable"], dynamo.EventsConfig{Shards: shards, Now: clock.Now})
	b.keys, errs[4] = dynamo.NewKeys(t.client, t.names["KeysTable"])
	b.exportJobs, errs[5] = dynamo.NewJobs(t.client, exportjob.Kind, t.names["ExportJobsTable"])
	b.limits, errs[6] = dynamo.NewLimits(t.client, t.names["LimitsTable"])
	b.erasureJobs, errs[7] = dynamo.NewJobs(t.client, erasurejob.Kind, t.names["ErasureJobsTable"])
	service, err := dynamo.NewService(t.client, t.names["EntitiesTable"])
	b.serviceID, errs[8] = service.Create, err
	return b, errors.Join(errs[:]...)
}

func (b *backend) openIndexedTable(t tables, cfg dynamo.EntitiesConfig) error {
	table := t.names["EntitiesTable"]
	declarations, err := dynamo.NewIndexes(t.client, table)
	if err != nil {
		return err
	}
	if cfg.Indexes, err = index.NewCache(declarations, snapshot.Config{}); err != nil {
		return err
	}
	entities, err := dynamo.NewEntities(t.client, table, cfg)
	b.stores.Entities, b.stores.Finder, b.stores.Indexes = entities, entities, cfg.Indexes
	return err
}

// OpenTable returns a client for a DynamoDB endpoint and the name of the table with this
// logical id in the template. It creates the table if necessary. An empty name selects the
// table that a server with this endpoint uses.
func OpenTable(ctx context.Context, getenv func(string) string, endpoint, logicalID, name string) (*dynamodb.Client, string, error) {
	t, err := openTables(ctx, getenv, endpoint, map[string]string{logicalID: name})
	if err != nil {
		return nil, "", err
	}
	return t.client, t.names[logicalID], nil
}

// dynamoDBClient uses the environment variables of the AWS SDK. Region and credentials have
// defaults, because DynamoDB Local accepts any values.
func dynamoDBClient(ctx context.Context, getenv func(string) string, endpoint string) (*dynamodb.Client, error) {
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

type tables struct {
	client *dynamodb.Client
	names  map[string]string // by logical id
}

// openTables returns tables at an endpoint, and creates those that are missing. selected maps
// logical ids to names; nil selects all tables of the template. An empty name stands for the
// value of the table's environment variable (template.Table.EnvVar) or, if that is empty too, for
// "sluice-" and the logical id.
func openTables(ctx context.Context, getenv func(string) string, endpoint string, selected map[string]string) (tables, error) {
	client, err := dynamoDBClient(ctx, getenv, endpoint)
	if err != nil {
		return tables{}, err
	}
	defined, err := template.Parse(sluice.Template)
	if err != nil {
		return tables{}, err
	}
	t := tables{client: client, names: make(map[string]string)}
	for _, table := range defined {
		name, wanted := selected[table.LogicalID]
		if selected != nil && !wanted {
			continue
		}
		name = cmp.Or(name, getenv(table.EnvVar()), "sluice-"+table.LogicalID)
		if err := template.CreateTable(ctx, t.client, table, name); err != nil {
			return tables{}, fmt.Errorf("use %s: %w", endpoint, err)
		}
		t.names[table.LogicalID] = name
	}
	return t, nil
}
