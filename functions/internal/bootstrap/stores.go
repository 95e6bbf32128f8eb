package bootstrap

import (
	"os"

	"sluice/pkg/dynamo"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/httpapi"
)

// Opener opens one or more stores and assigns each to its field of httpapi.Stores.
type Opener func(c Clients, stores *httpapi.Stores) error

// Entities is for functions that neither set attributes nor find entities by attributes.
func Entities(c Clients, stores *httpapi.Stores) (err error) {
	stores.Entities, err = dynamo.OpenEntities(c.DynamoDB, os.Getenv, c.Clock, nil)
	return err
}

func Indexes(c Clients, stores *httpapi.Stores) error {
	indexes, err := dynamo.OpenIndexes(c.DynamoDB, os.Getenv)
	stores.Indexes = indexes
	return err
}

// IndexedEntities opens Stores.Entities and Stores.Finder, both with the indexed attributes.
func IndexedEntities(c Clients, stores *httpapi.Stores) error {
	if err := Indexes(c, stores); err != nil {
		return err
	}
	entities, err := dynamo.OpenEntities(c.DynamoDB, os.Getenv, c.Clock, stores.Indexes)
	stores.Entities, stores.Finder = entities, entities
	return err
}

// Events is for functions that neither create events nor find them by name.
func Events(c Clients, stores *httpapi.Stores) (err error) {
	stores.Events, err = dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock, nil)
	return err
}

// IndexedEvents opens Stores.Events with the indexes.
func IndexedEvents(c Clients, stores *httpapi.Stores) error {
	if err := Indexes(c, stores); err != nil {
		return err
	}
	events, err := dynamo.OpenEvents(c.DynamoDB, os.Getenv, c.Clock, stores.Indexes)
	stores.Events = events
	return err
}

func ExportJobs(c Clients, stores *httpapi.Stores) (err error) {
	stores.ExportJobs, err = dynamo.OpenJobs(c.DynamoDB, exportjob.Kind, os.Getenv)
	return err
}

func ErasureJobs(c Clients, stores *httpapi.Stores) (err error) {
	stores.ErasureJobs, err = dynamo.OpenJobs(c.DynamoDB, erasurejob.Kind, os.Getenv)
	return err
}

// Erasures requires Stores.Entities.
func Erasures(c Clients, stores *httpapi.Stores) error {
	err := ErasureJobs(c, stores)
	stores.Erasures = erasurejob.Requests{Jobs: stores.ErasureJobs, Entities: stores.Entities, Now: c.Clock.Time}
	return err
}

func Usage(c Clients, stores *httpapi.Stores) (err error) {
	stores.Usage, err = dynamo.OpenUsage(c.DynamoDB, os.Getenv)
	return err
}

// Keys is for functions that manage or list keys.
func Keys(c Clients, stores *httpapi.Stores) error {
	keys, err := dynamo.OpenKeys(c.DynamoDB, os.Getenv)
	stores.Keys = keys
	return err
}

// LimitRows is for functions that manage limits.
func LimitRows(c Clients, stores *httpapi.Stores) error {
	rows, err := dynamo.OpenLimitRows(c.DynamoDB, os.Getenv)
	stores.LimitRows = rows
	return err
}

// Declarations is for functions that declare indexes.
func Declarations(c Clients, stores *httpapi.Stores) error {
	declarations, err := dynamo.OpenDeclarations(c.DynamoDB, os.Getenv)
	stores.Declarations = declarations
	return err
}

// Audit is for functions that record changes, or show what was recorded.
func Audit(c Clients, stores *httpapi.Stores) error {
	trail, err := dynamo.OpenAudit(c.DynamoDB, os.Getenv)
	stores.Audit = trail
	return err
}
