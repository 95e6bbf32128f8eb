package copier

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/secrettest"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/client"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/httpapi"
	"sluice/pkg/job"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// service serves the routes that a copy uses, with high limits. Each test, and each sequence of a
// property, uses workspaces of its own.
type service struct {
	url  string
	keys keys
}

type keys interface {
	access.Store
	Create(ctx context.Context, k access.Key) error
}

var workspaces atomic.Int64

// newBolt returns a service whose erasure jobs run after settle.
func newBolt(t *testing.T, settle time.Duration) *service {
	t.Helper()
	s, err := bolt.Open(t.TempDir(), bolt.Config{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // a temporary file
	stores := httpapi.Stores{Entities: s.Entities, Finder: s.Entities, Indexes: s.Indexed, Events: s.Events, ExportJobs: s.ExportJobs}
	requests := func(jobs *job.Runner) erasurejob.Requester {
		return erasurejob.Queuing{Requester: s.Erasures, Jobs: jobs}
	}
	return newService(t, stores, s.Keys, s.ErasureJobs, requests, s.ServiceID, settle)
}

func newDynamo(t *testing.T) *service {
	t.Helper()
	tables := make(map[string]string)
	for variable, table := range map[string]string{
		"COUNTERS": "Counters", "LIMITS": "Limits", "KEYS": "Keys", "ENTITIES": "Entities", "EVENTS": "Events", "EXPORT_JOBS": "ExportJobs", "ERASURE_JOBS": "ErasureJobs",
	} {
		tables[variable+"_TABLE"] = dynamolocal.Table(t, table+"Table")
	}
	s, err := dynamo.Open(dynamolocal.Client(t), func(variable string) string { return tables[variable] }, entity.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	stores := httpapi.Stores{Entities: s.Entities, Finder: s.Entities, Indexes: s.Indexes, Events: s.Events, ExportJobs: s.ExportJobs}
	requests := func(jobs *job.Runner) erasurejob.Requester {
		return erasurejob.Requests{Jobs: jobs, Entities: s.Entities, Now: time.Now}
	}
	return newService(t, stores, s.Keys, s.ErasureJobs, requests, tables["ENTITIES_TABLE"], time.Millisecond) // the engine's indexes have no delay
}

func newService(t *testing.T, stores httpapi.Stores, keys keys, backlog job.Backlog, requests func(*job.Runner) erasurejob.Requester, id string, settle time.Duration) *service {
	t.Helper()
	eraser, err := erasurejob.NewEraser(stores.Entities, stores.Events, erasurejob.Config{})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := job.NewRunner(erasurejob.Kind, backlog, eraser, job.RunnerConfig{Slots: 4, Config: job.Config{Settle: settle, Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); runner.Wait() })
	if err := runner.Start(running); err != nil {
		t.Fatal(err)
	}
	stores.ErasureJobs, stores.Erasures = runner, requests(runner)
	limiter, err := ratelimit.New(memory.NewCounters(), ratelimit.Config{Limits: ratelimit.Limits{Records: 1_000_000, Imports: 900, Requests: 900}})
	if err != nil {
		t.Fatal(err)
	}
	authenticator, err := access.NewAuthenticator(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	options := httpapi.Options{
		Access: authenticator, Logger: slog.New(slog.DiscardHandler),
		ServiceID: httpapi.NewServiceID(func(context.Context) (string, error) { return id, nil }),
	}
	mux := http.NewServeMux()
	for path, name := range map[string]string{
		"/entity": "list-entity", "/event": "list-event", "/upsert_entities": "upsert-entities", "/create_events": "create-events",
		"/delete_entity": "delete-entity", "/erasure_job/": "get-erasure-job", "/export_job": "list-export-job",
	} {
		api, err := httpapi.NewFunction(name, limiter, stores, options)
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(path, api)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &service{server.URL, keys}
}

// workspace returns the API key of a new workspace.
func (s *service) workspace(t *testing.T) (key string) {
	t.Helper()
	k, token := secrettest.New(t, access.Key{Workspace: fmt.Sprint("w", workspaces.Add(1)), Scopes: access.Scopes()}, time.Now())
	if err := s.keys.Create(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

func (s *service) client(t *testing.T, key string, transport http.RoundTripper) *client.Client {
	t.Helper()
	c, err := s.connect(key, transport)(client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *service) connect(key string, transport http.RoundTripper) func(client.Config) (*client.Client, error) {
	return func(cfg client.Config) (*client.Client, error) {
		cfg.Key, cfg.Share, cfg.Transport = key, 1, transport
		if f, ok := transport.(*fuse); ok && f.down != nil {
			cfg.MaxTries = 1
		}
		return client.New(s.url, cfg)
	}
}

// contents returns the records behind c without what the service sets, by kind and id.
func contents(ctx context.Context, c *client.Client) (map[string]string, error) {
	all := make(map[string]string)
	for e, err := range c.Entities(ctx, client.EntityQuery{}) {
		if err != nil {
			return nil, err
		}
		all["entity "+e.ID] = e.Type + " " + string(e.Attributes)
	}
	for e, err := range c.Events(ctx, client.EventQuery{}) {
		if err != nil {
			return nil, err
		}
		all["event "+e.ID] = strings.Join([]string{e.Name, e.EntityID, e.OccurredAt.String(), string(e.Attributes)}, " ")
	}
	return all, nil
}
