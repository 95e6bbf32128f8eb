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

	"sluice"
	"sluice/internal/template"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/httpapi"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
	"sluice/pkg/record"
)

type backend struct {
	counters    ratelimit.Store
	stores      httpapi.Stores // all stores except those that openBackground sets
	exportJobs  job.Backlog
	erasureJobs job.Backlog
	erasures    func(jobs *job.Runner) erasurejob.Requester
	serviceID   func(context.Context) (string, error)
	settle      time.Duration // time from the creation of a record until all indexes contain it
	keys        access.Store
	limits      ratelimit.RowStore
	indexes     indexBuilder
	records     string                 // where the records are; printed at start
	note        string                 // printed at start too; may be empty
	countersIn  string                 // where the counters are; printed at start
	keyFlags    string                 // flags for "sluice keys" that select this backend's API keys
	writable    func() error           // returns an error if the disk takes no more data or a file is damaged; the field is nil if the records are not on a local disk
	embedded    *bolt.Stores           // nil with DynamoDB
	save        func() error           // of the counters' sums; nil with DynamoDB
	observe     func(httpapi.Observed) // nil without metrics
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
	s, err := bolt.Open(dir, bolt.Config{Clock: clock})
	if err != nil {
		return nil, err
	}
	counters, err := memory.NewDurableCounters(context.Background(), s.Sums)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	indexes := newIndexes(s.Indexes, index.Keepers{Entities: s.Entities, Events: s.Events}, s.Indexed)
	b := &backend{
		counters: counters, keys: s.Keys, limits: s.Limits, exportJobs: s.ExportJobs, erasureJobs: s.ErasureJobs,
		stores: httpapi.Stores{Entities: s.Entities, Finder: s.Entities, Indexes: s.Indexed, Events: s.Events, Usage: counters, Minute: counters, Keys: s.Keys, LimitRows: s.Limits, Declarations: s.Indexes, Audit: s.Audit, BatchWriters: httpapi.MaxBatch},
		erasures: func(jobs *job.Runner) erasurejob.Requester {
			return erasurejob.Queuing{Requester: s.Erasures, Jobs: jobs}
		},
		serviceID: func(context.Context) (string, error) { return s.ServiceID, nil },
		settle:    time.Millisecond, // stamps follow the order of transactions and are truncated to the millisecond
		indexes:   indexes,
		records:   s.Path, countersIn: "memory", keyFlags: "--data-dir " + shellWord(dir),
		writable: func() error { return cmp.Or(s.Health(), probe(dir)) }, embedded: s, save: counters.Save, close: func() error { return errors.Join(counters.Save(), s.Close()) },
	}
	if s.Before != "" {
		b.note = fmt.Sprintf("\n  the layout of the data directory was converted; a backup of before is %s", s.Before)
	}
	if err := indexes.load(context.Background()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return b, nil
}

// probeFile exists only during a health check.
const probeFile = "health.tmp"

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
	s, err := dynamo.Open(t.client, t.getenv, clock)
	if err != nil {
		return nil, err
	}
	builder, err := dynamo.OpenBuilder(t.client, t.getenv, clock)
	if err != nil {
		return nil, err
	}
	rows, err := dynamo.OpenLimitRows(t.client, t.getenv)
	if err != nil {
		return nil, err
	}
	declarations, err := dynamo.OpenDeclarations(t.client, t.getenv)
	if err != nil {
		return nil, err
	}
	trail, err := dynamo.OpenAudit(t.client, t.getenv)
	if err != nil {
		return nil, err
	}
	return &backend{
		counters: s.Counters, keys: s.Keys, limits: s.Limits, exportJobs: s.ExportJobs, erasureJobs: s.ErasureJobs,
		stores: httpapi.Stores{Entities: s.Entities, Finder: s.Entities, Indexes: s.Indexes, Events: s.Events, Usage: s.Usage, Keys: s.Keys, LimitRows: rows, Declarations: declarations, Audit: trail},
		erasures: func(jobs *job.Runner) erasurejob.Requester {
			return erasurejob.Requests{Jobs: jobs, Entities: s.Entities, Now: clock.Time}
		},
		serviceID: s.Service.Create,
		settle:    record.SyncLag,
		indexes:   tableIndexes{builder},
		records:   endpoint, countersIn: endpoint, keyFlags: "--dynamodb " + endpoint,
		close: func() error { return nil },
	}, nil
}

// OpenTable returns a client for a DynamoDB endpoint and the name of the table of an environment
// variable, such as KEYS_TABLE. It creates the table if necessary. An empty name selects the
// table that a server with this endpoint uses.
func OpenTable(ctx context.Context, getenv func(string) string, endpoint, variable, name string) (*dynamodb.Client, string, error) {
	t, err := openTables(ctx, getenv, endpoint, map[string]string{variable: name})
	if err != nil {
		return nil, "", err
	}
	return t.client, t.getenv(variable), nil
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
	getenv func(string) string // also has the names of the tables
}

// openTables returns tables at an endpoint, and creates those that are missing. selected maps
// environment variables (template.Table.EnvVar) to names; nil selects all tables of the template.
// An empty name stands for the variable's value or, if that is empty too, for "sluice-" and the
// table's logical id.
func openTables(ctx context.Context, getenv func(string) string, endpoint string, selected map[string]string) (tables, error) {
	client, err := dynamoDBClient(ctx, getenv, endpoint)
	if err != nil {
		return tables{}, err
	}
	defined, err := template.Parse(sluice.Template)
	if err != nil {
		return tables{}, err
	}
	names := make(map[string]string)
	for _, table := range defined {
		variable := table.EnvVar()
		name, wanted := selected[variable]
		if selected != nil && !wanted {
			continue
		}
		names[variable] = cmp.Or(name, getenv(variable), "sluice-"+table.LogicalID)
		if err := template.CreateTable(ctx, client, table, names[variable]); err != nil {
			return tables{}, fmt.Errorf("use %s: %w", endpoint, err)
		}
	}
	return tables{client, func(variable string) string { return cmp.Or(names[variable], getenv(variable)) }}, nil
}
