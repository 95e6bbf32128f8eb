package exportjob

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sluice/pkg/record"
)

// Files is where files are written, in parts. Implementations are safe for
// concurrent use. j.FileKey names a file; j.Progress.Upload an upload of it.
//
// Put and Complete fail with ErrUpload when the upload is gone or holds other
// parts than the job remembers: then the file must be written anew.
type Files interface {
	// Start begins an upload of the job's file and returns its name.
	Start(ctx context.Context, j Job) (upload string, err error)

	// Put stores part number n, from 1, of the job's upload, over one that may
	// be there, and returns what identifies its content.
	Put(ctx context.Context, j Job, n int, part []byte) (etag string, err error)

	// Complete makes the job's parts the file, all at once. It may be repeated.
	Complete(ctx context.Context, j Job) error

	// Abort removes the job's upload and its parts. It may be repeated.
	Abort(ctx context.Context, j Job) error
}

// ErrUpload says that an upload is not what the job remembers of it.
var ErrUpload = errors.New("the upload is gone or has other parts")

// Config tunes a Worker. Its zero value is ready to use.
type Config struct {
	// PartBytes is how large every part but the last is at least. S3 wants 5 MiB,
	// the default.
	PartBytes int

	// MaxParts is the most parts of a file, 4,000 by default: the job has to
	// remember them, in an item of at most 400 KB.
	MaxParts int

	// MaxTries is how many runs in a row may end with nothing done until the job
	// is given up; 5 by default.
	MaxTries int

	// Margin is how long before the end of its time a run stops reading, so that
	// it can upload and save; 30 s by default.
	Margin time.Duration

	// SaveEvery is how often the number of records written is saved, about; 1 s
	// by default.
	SaveEvery time.Duration

	// Settle is how old a job must be before its records are read, so that all
	// those created before it have reached the indexes; 0 by default.
	Settle time.Duration

	// FileDays is for how many days a file is kept; 7 by default.
	FileDays int

	Now    func() time.Time // the clock of the jobs' times; time.Now by default
	Logger *slog.Logger     // slog.Default by default
}

// Worker carries out jobs. It is safe for concurrent use.
type Worker struct {
	store    Store
	entities Entities
	events   Events
	files    Files
	compress func(io.Writer) compressor
	Config
}

// NewWorker makes a Worker.
func NewWorker(store Store, entities Entities, events Events, files Files, cfg Config) (*Worker, error) {
	if store == nil || entities == nil || events == nil || files == nil {
		return nil, errors.New("exportjob: a store, records and files are required")
	}
	cfg.PartBytes = cmp.Or(cfg.PartBytes, 5<<20)
	cfg.MaxParts = cmp.Or(cfg.MaxParts, 4000)
	cfg.MaxTries = cmp.Or(cfg.MaxTries, 5)
	cfg.Margin = cmp.Or(cfg.Margin, 30*time.Second)
	cfg.SaveEvery = cmp.Or(cfg.SaveEvery, time.Second)
	cfg.FileDays = cmp.Or(cfg.FileDays, 7)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Worker{store: store, entities: entities, events: events, files: files, compress: fastGzip, Config: cfg}, nil
}

// compressor is a *gzip.Writer.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

func fastGzip(w io.Writer) compressor {
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
	return z
}

// saveTimeout bounds the last thing a run saves after its time has ended.
const saveTimeout = 10 * time.Second

// Run takes a job and works on it until it has ended, another run has taken it,
// or the time of ctx runs out: then the job is queued again for the next run.
// All of this is a success, also that there is no such job. An error means that
// the job is as the run left it and that it should be run again; when that has
// come to nothing Config.MaxTries times, the job fails.
func (w *Worker) Run(ctx context.Context, workspace, id string) error {
	j, err := take(ctx, w.store, workspace, id, rand.Text(), w.Now())
	log := w.Logger.With("workspace", workspace, "export_job", id)
	if missing := new(record.Error); errors.As(err, &missing) && missing.Kind == record.NotFound {
		log.WarnContext(ctx, "there is no such export job")
		return nil
	}
	if err != nil {
		return fmt.Errorf("take export job: %w", err)
	}
	r := &run{Worker: w, ctx: ctx, job: j, log: log}
	if j.Status.Final() {
		r.tidy()
		return nil
	}
	reading, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		reading, cancel = context.WithDeadline(ctx, deadline.Add(-w.Margin))
	}
	defer cancel()
	return r.conclude(reading, r.export(reading))
}

// run is one run of a worker.
type run struct {
	*Worker
	ctx   context.Context // of all that must not end halfway: until the run's time is over
	job   Job             // as it is stored
	log   *slog.Logger
	saved time.Time // when RecordsWritten was
}

// errTaken says that another run holds the job.
var errTaken = errors.New("another run has the export job")

// errCancelled says that the job was cancelled.
var errCancelled = errors.New("the export job was cancelled")

// failure is why a job cannot succeed, in words for people.
type failure string

func (f failure) Error() string { return string(f) }

// conclude leaves the job as err, the outcome of export, says.
func (r *run) conclude(reading context.Context, err error) error {
	var reason failure
	switch {
	case err == nil:
		r.log.InfoContext(r.ctx, "export job succeeded", "records", r.job.RecordsWritten, "bytes", *r.job.SizeBytes)
		return nil
	case errors.Is(err, errTaken):
		r.log.InfoContext(r.ctx, "another run has taken the export job")
		return nil
	case errors.Is(err, errCancelled):
		r.log.InfoContext(r.ctx, "export job cancelled")
		r.tidy()
		return nil
	case errors.As(err, &reason):
		return r.fail(reason)
	case reading.Err() != nil:
		return r.handOver()
	case r.job.Progress.Tries >= r.MaxTries:
		r.log.ErrorContext(r.ctx, "export job failed", "error", err)
		return r.fail(failure(fmt.Sprintf("The export failed %d times in a row at the same place. The service's log says why.", r.MaxTries)))
	}
	return fmt.Errorf("export job %s: %w", r.job.ID, err)
}

// tidy removes what a job that did not succeed has left of its file. What it
// cannot remove the files' own rule for uploads that nobody completes does.
func (r *run) tidy() {
	if r.job.Status == Succeeded || r.job.Progress.Upload == "" {
		return
	}
	ctx, cancel := r.last()
	defer cancel()
	if err := r.files.Abort(ctx, r.job); err != nil {
		r.log.WarnContext(r.ctx, "the upload of an export job that ended was not removed", "error", err)
	}
}

// last is the context of what a run does when its time may be over.
func (r *run) last() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), saveTimeout)
}

// fail ends the job with a reason.
func (r *run) fail(reason failure) error {
	text := string(reason)
	next := r.job.finished(Failed, r.Now())
	next.Error = &text
	ctx, cancel := r.last()
	defer cancel()
	if err := r.save(ctx, next); err != nil {
		return r.lost(err)
	}
	r.log.ErrorContext(r.ctx, "export job failed", "reason", text)
	r.tidy()
	return nil
}

// handOver queues the job for the next run.
func (r *run) handOver() error {
	next := r.job
	next.Status, next.RecordsWritten = Queued, next.Progress.Records
	next.Progress.Run = ""
	if _, limited := r.ctx.Deadline(); !limited {
		next.Progress.Tries-- // the program was stopped: no fault of the job
	}
	ctx, cancel := r.last()
	defer cancel()
	if err := r.save(ctx, next); err != nil {
		return r.lost(err)
	}
	r.log.InfoContext(r.ctx, "export job handed over to the next run", "records", next.RecordsWritten)
	return nil
}

// lost is the error of a run whose last save failed: none, if the job is no
// longer the run's.
func (r *run) lost(err error) error {
	switch {
	case errors.Is(err, errCancelled):
		r.tidy()
		return nil
	case errors.Is(err, errTaken):
		return nil
	}
	return fmt.Errorf("save export job %s: %w", r.job.ID, err)
}

// save stores next over the job. It fails with errTaken or errCancelled when
// the job is no longer the run's.
func (r *run) save(ctx context.Context, next Job) error {
	for {
		next.Revision = r.job.Revision + 1
		stored, replaced, err := r.store.Replace(ctx, next)
		switch missing := new(record.Error); {
		case errors.As(err, &missing) && missing.Kind == record.NotFound:
			return errTaken
		case err != nil:
			return err
		case replaced:
			r.job, r.saved = next, r.Now()
			return nil
		case stored.Status == Cancelled:
			r.job = stored
			return errCancelled
		case stored.Status != Running || stored.Progress.Run != r.job.Progress.Run:
			return errTaken
		}
		// A save of this run went through though its answer was lost.
		r.job = stored
	}
}

// export does all of the job that is not done yet.
func (r *run) export(ctx context.Context) error {
	if r.job.Progress.Tries > r.MaxTries {
		return failure(fmt.Sprintf("The export was started %d times in a row and broke off each time with nothing done.", r.MaxTries))
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.job.Format == CSV && !r.job.Progress.Survey.Done {
		if err := r.survey(ctx); err != nil {
			return err
		}
	}
	err := r.file(ctx)
	if errors.Is(err, ErrUpload) {
		next := r.job
		next.Progress = Progress{Run: next.Progress.Run, Tries: next.Progress.Tries, Survey: next.Progress.Survey}
		next.RecordsWritten, next.SizeBytes = 0, nil
		if err := r.save(r.ctx, next); err != nil {
			return err
		}
	}
	return err
}

// settle waits until the job is old enough.
func (r *run) settle(ctx context.Context) error {
	wait := r.Settle - r.Now().Sub(r.job.CreatedAt.Time())
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(min(wait, r.Settle)) // whatever the clock of the job's maker
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// survey looks at the attributes of all records.
func (r *run) survey(ctx context.Context) error {
	next := r.job
	found := newSurveyor(next.Progress.Survey)
	for rows, err := range r.source(r.job).pages(ctx, next.Progress.Survey.Cursor) {
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := found.look(row); err != nil {
				return err
			}
			next.Progress.Survey.Cursor = row.cursor
			next.Progress.Survey.Records++
		}
		if r.due() {
			next.Progress.Survey.Names = found.sorted()
			next.Progress.Tries = 0
			if err := r.save(r.ctx, next); err != nil {
				return err
			}
		}
	}
	next.Progress.Survey = Survey{Names: found.sorted(), Records: next.Progress.Survey.Records, Done: true}
	next.Progress.Tries = 0
	expected := next.Progress.Survey.Records
	next.RecordsExpected = &expected
	return r.save(r.ctx, next)
}

// due reports whether it is time to save again.
func (r *run) due() bool { return r.Now().Sub(r.saved) >= r.SaveEvery }

// file writes the file.
func (r *run) file(ctx context.Context) error {
	if r.job.Progress.Upload == "" {
		next := r.job
		var err error
		if next.Progress.Upload, err = r.files.Start(r.ctx, next); err != nil {
			return err
		}
		if err := r.save(r.ctx, next); err != nil {
			_ = r.files.Abort(r.ctx, next) // nobody else knows of it
			return err
		}
	}
	if !r.job.Progress.Written {
		if err := r.write(ctx); err != nil {
			return err
		}
	}
	if err := r.files.Complete(r.ctx, r.job); err != nil {
		return err
	}
	next := r.job.finished(Succeeded, r.Now())
	expires := record.TimeOf(next.FinishedAt.Time().AddDate(0, 0, r.FileDays))
	written := next.RecordsWritten
	next.FileExpiresAt, next.RecordsExpected = &expires, &written // entities may have come and gone since they were counted
	next.Progress = Progress{Run: next.Progress.Run}
	return r.save(r.ctx, next)
}

// write writes the records that are in no part yet.
func (r *run) write(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the count and the reading with it
	from := r.source(r.job)
	counted := make(chan int64, 1)
	if r.job.RecordsExpected == nil {
		go func() {
			n, err := from.count(ctx)
			if err == nil {
				counted <- n
			} else if ctx.Err() == nil {
				r.log.WarnContext(ctx, "the records of an export job were not counted", "error", err)
			}
		}()
	}
	to := newEncoder(r.job)
	part := newMember(r.PartBytes, r.compress)
	if len(r.job.Progress.Parts) == 0 {
		if err := to.begin(part); err != nil {
			return err
		}
	}
	cursor := r.job.Progress.Cursor
	for rows, err := range from.pages(ctx, cursor) {
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := to.write(part, row); err != nil {
				return err
			}
			cursor = row.cursor
			part.records++
			if part.Len() >= r.PartBytes {
				if err := r.put(part, cursor, false); err != nil {
					return err
				}
			}
		}
		next := r.job
		select {
		case n := <-counted:
			next.RecordsExpected = &n
		default:
			if !r.due() {
				continue
			}
		}
		next.RecordsWritten = next.Progress.Records + part.records
		if err := r.save(r.ctx, next); err != nil {
			return err
		}
	}
	return r.put(part, cursor, true)
}

// put uploads a part and saves that it did, with the place where it ends. The
// last part may be small, or none.
func (r *run) put(part *member, cursor string, last bool) error {
	next := r.job
	n := len(next.Progress.Parts) + 1
	if !last || part.records > 0 || n == 1 {
		if n > r.MaxParts {
			return failure(fmt.Sprintf("The file would be larger than %d MB. Export less at once, by a filter.", int64(r.MaxParts)*int64(r.PartBytes)>>20))
		}
		b, err := part.bytes()
		if err != nil {
			return err
		}
		etag, err := r.files.Put(r.ctx, next, n, b)
		if err != nil {
			return err
		}
		next.Progress.Parts = append(next.Progress.Parts[:n-1:n-1], Part{ETag: etag, Size: int64(len(b))})
	}
	size := next.Progress.size()
	next.SizeBytes = &size
	next.Progress.Records += part.records
	next.Progress.Cursor, next.Progress.Written = cursor, last
	next.Progress.Tries = 0
	next.RecordsWritten = next.Progress.Records
	part.reset()
	return r.save(r.ctx, next)
}

// member is a part under way: a gzip member in memory.
type member struct {
	bytes.Buffer // what has been compressed
	gzip         compressor
	records      int64
}

func newMember(size int, compress func(io.Writer) compressor) *member {
	m := new(member)
	m.Grow(size + size/8) // the last record may be large; mostly none is
	m.gzip = compress(&m.Buffer)
	return m
}

// Write compresses b.
func (m *member) Write(b []byte) (int, error) { return m.gzip.Write(b) }

// bytes ends the member and returns it. They are good until reset.
func (m *member) bytes() ([]byte, error) {
	if err := m.gzip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return m.Bytes(), nil
}

// reset begins the next member.
func (m *member) reset() {
	m.Reset()
	m.gzip.Reset(&m.Buffer)
	m.records = 0
}
