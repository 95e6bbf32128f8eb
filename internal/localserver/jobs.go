package localserver

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"sluice/pkg/bolt"
	"sluice/pkg/erasurejob"
	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/job"
)

const (
	exportsAtOnce  = 2 // and one more export in its first turn, which has its own slot
	exportsTurn    = 5 * time.Second
	erasuresAtOnce = 4
)

// background runs the jobs of all kinds, builds indexes, and removes old export files.
type background struct {
	runners  []*job.Runner
	indexes  indexBuilder
	save     func() error // nil if the server keeps no sums
	building sync.WaitGroup
	files    *files.Dir
	days     int // how many days export files are kept
	logger   *slog.Logger
}

// openBackground sets the stores of jobs and of export links in b.stores. The export files are
// in a subdirectory of dir.
func openBackground(b *backend, dir string, getenv func(string) string, logger *slog.Logger) (*background, error) {
	days, err := exportjob.ParseFileDays(cmp.Or(getenv("EXPORT_FILE_DAYS"), "7"))
	if err != nil {
		return nil, err
	}
	files, err := files.NewDir(filepath.Join(dir, bolt.ExportsDir), time.Now)
	if err != nil {
		return nil, err
	}
	exporter, err := exportjob.NewExporter(b.stores.Entities, b.stores.Events, files, exportjob.Config{FileDays: days, Indexes: b.stores.Indexes})
	if err != nil {
		return nil, err
	}
	exports, err := job.NewRunner(exportjob.Kind, b.exportJobs, exporter, job.RunnerConfig{
		Slots: exportsAtOnce, FirstTurn: b.settle + exportsTurn, Config: job.Config{Settle: b.settle, Logger: logger},
	})
	if err != nil {
		return nil, err
	}
	eraser, err := erasurejob.NewEraser(b.stores.Entities, b.stores.Events, erasurejob.Config{})
	if err != nil {
		return nil, err
	}
	erasures, err := job.NewRunner(erasurejob.Kind, b.erasureJobs, eraser, job.RunnerConfig{
		Slots: erasuresAtOnce, Config: job.Config{Settle: b.settle, Logger: logger},
	})
	if err != nil {
		return nil, err
	}
	b.stores.ExportJobs, b.stores.ErasureJobs, b.stores.Erasures = exports, erasures, b.erasures(erasures)
	b.stores.ExportLinks, b.stores.ExportFiles, b.stores.ExportDeleter = files, files, files
	return &background{runners: []*job.Runner{exports, erasures}, indexes: b.indexes, save: b.save, files: files, days: days, logger: logger}, nil
}

// saveSums is how often the sums of keys are saved, so how old they are in the output of "sluice
// usage --all-keys".
const saveSums = 5 * time.Second

// start runs jobs, builds indexes, saves sums and removes old files in the background until ctx is
// done. Jobs that an earlier process left unfinished run first.
func (b *background) start(ctx context.Context) error {
	for _, r := range b.runners {
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	b.building.Go(func() { b.indexes.run(ctx, b.logger) })
	go every(ctx, 24*time.Hour, func() {
		if err := b.files.Expire(b.days); err != nil {
			b.logger.Error("cannot remove old export files", "error", err)
		}
	})
	if b.save != nil {
		go every(ctx, saveSums, func() {
			if err := b.save(); err != nil {
				b.logger.Error("cannot save the usage of API keys by day and month", "error", err)
			}
		})
	}
	return nil
}

// every calls f now and then again after each interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// byKind returns the runners by the name of their kind.
func (b *background) byKind() map[string]*job.Runner {
	return map[string]*job.Runner{exportjob.Kind.Name: b.runners[0], erasurejob.Kind.Name: b.runners[1]}
}

func (b *background) wait() {
	b.building.Wait()
	for _, r := range b.runners {
		r.Wait()
	}
}
