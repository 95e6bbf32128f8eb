package exportjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/pkg/index"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Config tunes an Exporter. Its zero value is ready to use.
type Config struct {
	PartBytes int           // minimum size of every part except the last; 5 MiB by default, the minimum that S3 allows
	MaxParts  int           // maximum number of parts; 4,000 by default, so that the ETags fit into job.MaxCheckpoint
	SaveEvery time.Duration // roughly how often the number of written records is saved; 1 s by default
	FileDays  int           // how many days a file is kept; 7 by default

	Indexes index.Declarations // nil for none
}

// ParseFileDays parses the value of EXPORT_FILE_DAYS for Config.FileDays.
func ParseFileDays(text string) (int, error) {
	days, err := strconv.Atoi(text)
	if err != nil || days < 1 {
		return 0, fmt.Errorf("EXPORT_FILE_DAYS=%q must be a whole number of at least 1", text)
	}
	return days, nil
}

// Exporter is the [job.Work] of export jobs. It reads a job's records, writes them to the file
// in parts, and saves a checkpoint after each part. It is safe for concurrent use.
type Exporter struct {
	entities Entities
	events   Events
	files    Files
	Config
}

// NewExporter fails if entities, events or files is nil.
func NewExporter(entities Entities, events Events, files Files, cfg Config) (*Exporter, error) {
	if entities == nil || events == nil || files == nil {
		return nil, errors.New("exportjob: records and files are required")
	}
	cfg.PartBytes = cmp.Or(cfg.PartBytes, 5<<20)
	cfg.MaxParts = cmp.Or(cfg.MaxParts, 4000)
	cfg.SaveEvery = cmp.Or(cfg.SaveEvery, time.Second)
	cfg.FileDays = cmp.Or(cfg.FileDays, 7)
	if cfg.Indexes == nil {
		cfg.Indexes = new(index.Current)
	}
	return &Exporter{entities: entities, events: events, files: files, Config: cfg}, nil
}

// run is one run of an export job.
type run struct {
	job      *job.Run
	exporter *Exporter

	details    details // as last saved
	checkpoint checkpoint
	savedAt    time.Time

	counted atomic.Pointer[int64] // number of the job's records; nil until they have been counted
}

// Do implements [job.Work].
func (x *Exporter) Do(ctx context.Context, running *job.Run) (any, error) {
	r := &run{job: running, exporter: x}
	if err := running.Job.Decode(&r.details, &r.checkpoint); err != nil {
		return nil, err
	}
	r.details.RecordsWritten = r.checkpoint.Records // records that are in no part will be written again
	defer func() { running.Log = running.Log.With("records", r.details.RecordsWritten) }()
	if r.details.Format == record.CSV && !r.checkpoint.Survey.Done {
		if err := r.survey(ctx); err != nil {
			return nil, err
		}
	}
	err := r.writeFile(ctx)
	if errors.Is(err, ErrUpload) { // the next run writes the file again from the first record
		if err := x.files.Abort(running.Calls, r.upload()); err != nil {
			return nil, err
		}
		again := details{ExportOrder: r.details.ExportOrder, RecordsExpected: r.details.RecordsExpected}
		if err := r.save(again, checkpoint{Survey: r.checkpoint.Survey}, false); err != nil {
			return nil, err
		}
	}
	return r.details, err
}

// Clean implements [job.Work]. It removes the upload and the file.
func (x *Exporter) Clean(ctx context.Context, j job.Job) error {
	var d details
	if err := j.Decode(&d, nil); err != nil {
		return err
	}
	f := fileOf(j, d, nil)
	return errors.Join(x.files.Abort(ctx, f), x.files.Delete(ctx, f))
}

// upload returns the job's file with the upload and parts that were last saved.
func (r *run) upload() File { return fileOf(r.job.Job, r.details, r.checkpoint.Parts) }

func (r *run) writeFile(ctx context.Context) error {
	files := r.exporter.files
	if r.details.Upload == "" {
		next := r.details
		var err error
		if next.Upload, err = files.Start(r.job.Calls, r.upload()); err != nil {
			return err
		}
		if err := r.save(next, r.checkpoint, false); err != nil {
			_ = files.Abort(r.job.Calls, fileOf(r.job.Job, next, nil)) // no other run knows this upload
			return err
		}
	}
	if !r.checkpoint.Written {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	if err := files.Complete(r.job.Calls, r.upload()); err != nil {
		return err
	}
	expires := record.TimeOf(r.job.Now().AddDate(0, 0, r.exporter.FileDays))
	written := r.details.RecordsWritten
	// RecordsExpected was too high if records were deleted during the export.
	r.details.FileExpiresAt, r.details.RecordsExpected = &expires, &written
	return nil
}

func (r *run) due() bool { return r.job.Now().Sub(r.savedAt) >= r.exporter.SaveEvery }

// save stores d and c and, if that succeeds, keeps them in r.
func (r *run) save(d details, c checkpoint, further bool) error {
	d.RecordsExpected = cmp.Or(d.RecordsExpected, r.counted.Load())
	if err := r.job.Save(d, c, further); err != nil {
		return err
	}
	r.details, r.checkpoint, r.savedAt = d, c, r.job.Now()
	return nil
}
