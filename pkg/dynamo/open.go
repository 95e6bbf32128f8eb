package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/snapshot"
)

// Stores are all stores of a service.
type Stores struct {
	Counters    *Counters
	Usage       *Usage
	Limits      *Limits
	Keys        *Keys
	Service     *Service
	Indexes     *index.Cache // the indexed attributes that Entities follows
	Entities    *Entities
	Events      *Events
	ExportJobs  *Jobs
	ErasureJobs *Jobs
}

// Open opens all stores. A function opens only those that it uses, with the functions below, so
// that it links no other store.
//
// All of them take the names of tables from the environment variables that template.yaml sets. An
// error names the variable at fault.
func Open(client *dynamodb.Client, getenv func(string) string, clock entity.Clock) (s Stores, err error) {
	if s.Counters, err = OpenCounters(client, getenv); err != nil {
		return s, err
	}
	if s.Usage, err = OpenUsage(client, getenv); err != nil {
		return s, err
	}
	if s.Limits, err = OpenLimits(client, getenv); err != nil {
		return s, err
	}
	if s.Keys, err = OpenKeys(client, getenv); err != nil {
		return s, err
	}
	if s.Service, err = OpenService(client, getenv); err != nil {
		return s, err
	}
	if s.Indexes, err = OpenIndexes(client, getenv); err != nil {
		return s, err
	}
	if s.Entities, err = OpenEntities(client, getenv, clock, s.Indexes); err != nil {
		return s, err
	}
	if s.Events, err = OpenEvents(client, getenv, clock, s.Indexes); err != nil {
		return s, err
	}
	if s.ExportJobs, err = OpenJobs(client, exportjob.Kind, getenv); err != nil {
		return s, err
	}
	s.ErasureJobs, err = OpenJobs(client, erasurejob.Kind, getenv)
	return s, err
}

func OpenCounters(client CountersClient, getenv func(string) string) (*Counters, error) {
	return open("COUNTERS_TABLE", getenv, func(table string) (*Counters, error) { return NewCounters(client, table) })
}

func OpenUsage(client UsageClient, getenv func(string) string) (*Usage, error) {
	return open("COUNTERS_TABLE", getenv, func(table string) (*Usage, error) { return NewUsage(client, table) })
}

// OpenLimits returns limits with eventual reads: every instance reads all rows when it starts, and
// again well before they are too old.
func OpenLimits(client LimitsClient, getenv func(string) string) (*Limits, error) {
	s, err := open("LIMITS_TABLE", getenv, func(table string) (*Limits, error) { return NewLimits(client, table) })
	if err == nil {
		s.Eventual = true
	}
	return s, err
}

// OpenLimitRows returns limits with strongly consistent reads, for what changes them.
func OpenLimitRows(client LimitsClient, getenv func(string) string) (*Limits, error) {
	return open("LIMITS_TABLE", getenv, func(table string) (*Limits, error) { return NewLimits(client, table) })
}

func OpenAudit(client AuditClient, getenv func(string) string) (*Audit, error) {
	return open("AUDIT_TABLE", getenv, func(table string) (*Audit, error) { return NewAudit(client, table) })
}

// OpenDeclarations returns the declarations of indexes, for what changes them.
func OpenDeclarations(client IndexesClient, getenv func(string) string) (*Indexes, error) {
	return open("ENTITIES_TABLE", getenv, func(table string) (*Indexes, error) { return NewIndexes(client, table) })
}

func OpenKeys(client KeysClient, getenv func(string) string) (*Keys, error) {
	return open("KEYS_TABLE", getenv, func(table string) (*Keys, error) { return NewKeys(client, table) })
}

func OpenService(client ServiceClient, getenv func(string) string) (*Service, error) {
	return open("ENTITIES_TABLE", getenv, func(table string) (*Service, error) { return NewService(client, table) })
}

// OpenIndexes returns a cache of the indexed attributes. It has read nothing yet.
func OpenIndexes(client IndexesClient, getenv func(string) string) (*index.Cache, error) {
	declarations, err := open("ENTITIES_TABLE", getenv, func(table string) (*Indexes, error) { return NewIndexes(client, table) })
	if err != nil {
		return nil, err
	}
	return index.NewCache(declarations, snapshot.Config{})
}

// OpenBuilder returns what builds and removes the indexes of entities and events.
func OpenBuilder(client *dynamodb.Client, getenv func(string) string, clock entity.Clock) (*index.Builder, error) {
	store, err := open("ENTITIES_TABLE", getenv, func(table string) (*Indexes, error) { return NewIndexes(client, table) })
	if err != nil {
		return nil, err
	}
	entities, err := OpenEntities(client, getenv, clock, nil)
	if err != nil {
		return nil, err
	}
	events, err := OpenEvents(client, getenv, clock, nil)
	if err != nil {
		return nil, err
	}
	return index.NewBuilder(store, index.Keepers{Entities: entities, Events: NewEventKeys(client, events)}, index.BuilderConfig{}), nil
}

// OpenEntities also reads EVENT_SHARDS and EVENT_READ_SHARDS; see LoadShards. Without indexes, the
// store neither indexes nor finds entities by attributes.
func OpenEntities(client EntitiesClient, getenv func(string) string, clock entity.Clock, indexes index.Declarations) (*Entities, error) {
	shards, err := LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	return open("ENTITIES_TABLE", getenv, func(table string) (*Entities, error) {
		return NewEntities(client, table, EntitiesConfig{Shards: shards, Clock: clock, Indexes: indexes})
	})
}

// OpenEvents also reads EVENT_SHARDS and EVENT_READ_SHARDS; see LoadShards. Without indexes, the
// store must not create events.
func OpenEvents(client EventsClient, getenv func(string) string, clock entity.Clock, indexes index.Declarations) (*Events, error) {
	shards, err := LoadShards(getenv)
	if err != nil {
		return nil, err
	}
	return open("EVENTS_TABLE", getenv, func(table string) (*Events, error) {
		return NewEvents(client, table, EventsConfig{Shards: shards, Now: clock.Now, Indexes: indexes})
	})
}

func OpenJobs(client JobsClient, kind job.Kind, getenv func(string) string) (*Jobs, error) {
	return open(kind.Variable("TABLE"), getenv, func(table string) (*Jobs, error) { return NewJobs(client, kind, table) })
}

func open[S any](variable string, getenv func(string) string, store func(table string) (S, error)) (S, error) {
	s, err := store(getenv(variable))
	if err != nil {
		err = fmt.Errorf("%s: %w", variable, err)
	}
	return s, err
}
