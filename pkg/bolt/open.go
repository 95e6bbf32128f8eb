package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/index"
)

// OpenKeys opens the API keys in the data directory dir, which a running server may be using.
// Storing the first key creates the file.
func OpenKeys(dir string) (*Keys, error) { return openFile(dir, keysFile, NewKeys) }

// OpenLimits opens the rows of limits in the data directory dir, which a running server may be
// using. Storing the first row creates the file.
func OpenLimits(dir string) (*Limits, error) { return openFile(dir, limitsFile, NewLimits) }

// OpenIndexes opens the indexed attributes in the data directory dir, which a running server
// may be using. Storing the first attribute creates the file.
func OpenIndexes(dir string) (*Indexes, error) { return openFile(dir, indexesFile, NewIndexes) }

func openFile[S any](dir, name string, open func(path string) (S, error)) (S, error) {
	if _, err := checkDir(dir); err != nil {
		var none S
		return none, err
	}
	return open(filepath.Join(dir, name))
}

// Stores are all stores of a data directory.
type Stores struct {
	Entities    *Entities
	Events      *Events
	ExportJobs  *Jobs
	ErasureJobs *Jobs
	Erasures    *Erasures
	Keys        *Keys
	Limits      *Limits
	Indexes     *Indexes
	Indexed     *index.Current // the indexed attributes that Entities follows; empty until the caller stores some
	ServiceID   string
	Path        string // of the file with the records

	db *bbolt.DB
}

// Config tunes Open. Its zero value is ready to use.
type Config struct {
	Clock  entity.Clock
	NoSync bool // if set, a crash may lose records; for tests
}

// Open opens all stores of the data directory dir, which no other process may be using. It creates
// the directory if necessary.
func Open(dir string, cfg Config) (*Stores, error) {
	if err := CreateDir(dir); err != nil {
		return nil, err
	}
	if !HasData(dir) && exists(dir, usedFile) {
		return nil, lostRecords(dir)
	}
	path := filepath.Join(dir, recordsFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoSync: cfg.NoSync})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another process; stop it, or choose another directory with --data-dir or DATA_DIR", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s := &Stores{Indexed: new(index.Current), Path: path, db: db}
	if err := s.open(dir, cfg.Clock); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *Stores) open(dir string, clock entity.Clock) (err error) {
	if s.ServiceID, err = serviceID(dir, s.db); err != nil {
		return err
	}
	if s.Keys, err = OpenKeys(dir); err != nil {
		return err
	}
	if s.Limits, err = OpenLimits(dir); err != nil {
		return err
	}
	if s.Indexes, err = OpenIndexes(dir); err != nil {
		return err
	}
	if s.Entities, err = NewEntities(s.db, clock, s.Indexed); err != nil {
		return err
	}
	if s.Events, err = NewEvents(s.db, clock.Time); err != nil {
		return err
	}
	if s.ExportJobs, err = NewJobs(s.db, exportjob.Kind); err != nil {
		return err
	}
	if s.ErasureJobs, err = NewJobs(s.db, erasurejob.Kind); err != nil {
		return err
	}
	s.Erasures = &Erasures{s.Entities, s.ErasureJobs}
	return nil
}

// Close releases the file with the records. No store may be used afterwards.
func (s *Stores) Close() error { return s.db.Close() }
