package bolt

import "time"

// Observer is told what the stores of records do. Its functions must be safe for concurrent use.
type Observer struct {
	Read   func(took time.Duration)             // called after each read transaction
	Commit func(writes int, took time.Duration) // called after each write transaction; writes is how many writes share it
}

func (o *Observer) read(began time.Time) {
	if o != nil {
		o.Read(time.Since(began))
	}
}

func (o *Observer) commit(writes int, began time.Time) {
	if o != nil {
		o.Commit(writes, time.Since(began))
	}
}

// Observe makes the stores of records call o. It must be called before the stores are used.
func (s *Stores) Observe(o *Observer) {
	s.Entities.table.observe(o)
	s.Events.table.observe(o)
	s.ExportJobs.table.observe(o)
	s.ErasureJobs.table.observe(o)
}

func (t *table[R]) observe(o *Observer) { t.observer, t.writer.observer = o, o }

// FreeBytes returns how much of the file with the records is free for later writes.
func (s *Stores) FreeBytes() int {
	stats := s.db.Stats()
	return (stats.FreePageN + stats.PendingPageN) * s.db.Info().PageSize
}

// WrittenBytes returns how much commits have written to the file with the records since it was opened.
func (s *Stores) WrittenBytes() int64 {
	stats := s.db.Stats().TxStats
	return stats.GetPageAlloc()
}

// Records returns how many entities, without tombstones, and how many events are stored, those that
// have expired and are not removed yet included. It takes as long as a read of a record.
func (s *Stores) Records() (entities, events int64, err error) {
	entities, err = s.Entities.table.stored()
	if err == nil {
		events, err = s.Events.table.stored()
	}
	return entities, events, err
}
