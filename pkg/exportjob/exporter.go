package exportjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/pkg/job"
	"sluice/pkg/record"
)

// Config tunes an Exporter. Its zero value is ready to use.
type Config struct {
	PartBytes int           // minimum size of every part except the last; 5 MiB by default, the minimum that S3 allows
	MaxParts  int           // maximum number of parts; 4,000 by default, so that the ETags fit into job.MaxCheckpoint
	SaveEvery time.Duration // roughly how often the number of written records is saved; 1 s by default
	FileDays  int           // how many days a file is kept; 7 by default
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
	return &Exporter{entities: entities, events: events, files: files, Config: cfg}, nil
}

type run struct {
	*job.Run
	*Exporter
	state           // as last saved
	saved time.Time // when the state was last saved

	counted atomic.Pointer[int64] // number of the job's records; nil until they have been counted
}

// Do implements [job.Work].
func (x *Exporter) Do(ctx context.Context, running *job.Run) (any, error) {
	r := &run{Run: running, Exporter: x}
	if err := r.Job.Decode(&r.details, &r.checkpoint); err != nil {
		return nil, err
	}
	r.RecordsWritten = r.Records // records that are in no part will be written again
	defer func() { r.Log = r.Log.With("records", r.RecordsWritten) }()
	if r.Format == record.CSV && !r.Survey.Done {
		if err := r.survey(ctx); err != nil {
			return nil, err
		}
	}
	err := r.writeFile(ctx)
	if errors.Is(err, ErrUpload) { // the next run writes the file again from the first record
		if err := r.files.Abort(r.Calls, r.upload()); err != nil {
			return nil, err
		}
		next := state{details{ExportOrder: r.ExportOrder, RecordsExpected: r.RecordsExpected}, checkpoint{Survey: r.Survey}}
		if err := r.save(next, false); err != nil {
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
func (r *run) upload() File { return fileOf(r.Job, r.details, r.Parts) }

func (r *run) writeFile(ctx context.Context) error {
	if r.Upload == "" {
		next := r.state
		var err error
		if next.Upload, err = r.files.Start(r.Calls, r.upload()); err != nil {
			return err
		}
		if err := r.save(next, false); err != nil {
			_ = r.files.Abort(r.Calls, fileOf(r.Job, next.details, nil)) // no other run knows this upload
			return err
		}
	}
	if !r.Written {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	if err := r.files.Complete(r.Calls, r.upload()); err != nil {
		return err
	}
	expires := record.TimeOf(r.Now().AddDate(0, 0, r.FileDays))
	written := r.RecordsWritten
	// RecordsExpected was too high if records were deleted during the export.
	r.FileExpiresAt, r.RecordsExpected = &expires, &written
	return nil
}

func (r *run) due() bool { return r.Now().Sub(r.saved) >= r.SaveEvery }

// save stores next and, if that succeeds, makes it the state of r.
func (r *run) save(next state, further bool) error {
	next.RecordsExpected = cmp.Or(next.RecordsExpected, r.counted.Load())
	if err := r.Save(next.details, next.checkpoint, further); err != nil {
		return err
	}
	r.state, r.saved = next, r.Now()
	return nil
}
