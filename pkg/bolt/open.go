package bolt

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

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

// OpenSums opens the sums of API keys in the data directory dir, which a running server may be using.
// Storing the first sum creates the file.
func OpenSums(dir string) (*Sums, error) { return openFile(dir, sumsFile, NewSums) }

// OpenAudit opens the audit trail in the data directory dir, which a running server may be using.
// Storing the first record creates the file.
func OpenAudit(dir string) (*Audit, error) { return openFile(dir, auditFile, NewAudit) }

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
	Sums        *Sums
	Audit       *Audit
	Indexed     *index.Current // the indexed attributes that Entities follows; empty until the caller stores some
	ServiceID   string
	Path        string // of the file with the records
	Before      string // the backup of before Open converted the layout; "" if it did not

	dir    string
	db     *bbolt.DB
	opened os.FileInfo // the file with the records
	damage damage      // of that file
}

// Config tunes Open. Its zero value is ready to use.
type Config struct {
	Clock  entity.Clock
	NoSync bool // if set, a crash may lose records; for tests
}

// Open opens all stores of the data directory dir, which no other process may be using. It creates
// the directory if necessary. If dir has an earlier layout, Open makes a backup and converts dir.
func Open(dir string, cfg Config) (*Stores, error) {
	before := ""
	err := convert(dir, conversions, func(version string) (err error) { before, err = backupBefore(dir, version); return err })
	if err == nil {
		err = CreateDir(dir)
	}
	if err != nil {
		return nil, err
	}
	if !HasData(dir) && exists(dir, usedFile) {
		return nil, lostRecords(dir)
	}
	for _, f := range sharedFiles {
		if err := verifyLocked(filepath.Join(dir, f.name)); err != nil {
			return nil, err
		}
	}
	db, err := openRecords(dir, cfg.NoSync)
	if err != nil {
		return nil, err
	}
	s := &Stores{Indexed: new(index.Current), Path: db.Path(), Before: before, dir: dir, db: db}
	err = guard(s.Path, func() error { return s.open(dir, cfg.Clock) })
	if err == nil {
		s.opened, err = os.Stat(s.Path)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// openRecords opens the file with the records in dir, after it has read all of its pages.
func openRecords(dir string, noSync bool) (db *bbolt.DB, err error) {
	path := filepath.Join(dir, recordsFile)
	if err := verifyLocked(path); err != nil {
		return nil, inUse(path, err)
	}
	// With NoFreelistSync, a commit does not write the list of all free pages, which after large
	// deletions is most of what it writes. bbolt looks for them when it opens a file that was not
	// closed (see Close).
	o := &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true, NoSync: noSync, InitialMmapSize: mapSize()}
	if db, err = openBolt(path, o); errors.Is(err, syscall.ENOMEM) { // the process may have a limit
		o.InitialMmapSize = 0
		db, err = openBolt(path, o)
	}
	if err != nil {
		return nil, inUse(path, err)
	}
	return db, syncDir(dir)
}

func inUse(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("%s is in use by another process; stop it, or choose another directory with --data-dir or DATA_DIR", path)
	}
	return err
}

// mapSize is how much memory, of virtual addresses, a file may take before bbolt must map it again.
// That waits for all readers, of which a backup takes long, and everything else would wait with it.
func mapSize() int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" { // Windows would make the file that large
		return 0
	}
	return math.MaxInt32 << 5 // 64 GB
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
	if s.Sums, err = OpenSums(dir); err != nil {
		return err
	}
	if s.Audit, err = OpenAudit(dir); err != nil {
		return err
	}
	return s.tables(clock)
}

func (s *Stores) tables(clock entity.Clock) (err error) {
	if s.Entities, err = NewEntities(s.db, clock, s.Indexed); err != nil {
		return err
	}
	if s.Events, err = NewEvents(s.db, clock.Time, s.Indexed); err != nil {
		return err
	}
	if s.ExportJobs, err = NewJobs(s.db, exportjob.Kind); err != nil {
		return err
	}
	if s.ErasureJobs, err = NewJobs(s.db, erasurejob.Kind); err != nil {
		return err
	}
	s.Erasures = &Erasures{s.Entities, s.ErasureJobs}
	s.Entities.table.share(&s.damage)
	s.Events.table.share(&s.damage)
	s.ExportJobs.table.share(&s.damage)
	s.ErasureJobs.table.share(&s.damage)
	return nil
}

// Close releases the file with the records. No store may be used afterwards. It first writes the list
// of free pages, so that Open finds it. If that fails, Open looks for them.
func (s *Stores) Close() error {
	if e := s.damage.met.Load(); e != nil && e.stuck {
		return nil
	}
	s.db.NoFreelistSync = false
	s.damage.update(s.db, func(*bbolt.Tx) error { return nil }) //nolint:errcheck // as described
	return s.db.Close()
}
