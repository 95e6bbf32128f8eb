package exportjob

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/internal/test/jobtest"
	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

type config struct {
	Config
	life     job.Config
	formulas api.Formulas
}

// created is when a world's job is created.
var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world keeps in memory what outlives a worker: a job, its file and the records.
type world struct {
	t      jobtest.TB
	config config
	jobs   *jobtest.Store

	mu       sync.Mutex
	uploads  map[string]map[int][]byte
	files    map[string][]byte
	records  []stored // ordered by key
	pageSize int      // maximum number of records on a page, whatever the query's limit
	want     []string // ids of the job's records, in order
	names    []string // attribute names of the job's records, in order
	now      time.Time
	started  int // number of uploads started

	unreadable string // key of the record that life.list fails to read; "" for none
}

type stored struct {
	key    string // position in a list
	entity entity.Entity
	event  event.Event
}

func (r stored) createdAt() record.Time {
	if r.entity.ID != "" {
		return r.entity.CreatedAt
	}
	return r.event.CreatedAt
}

// newWorld returns a world with a job, n records that belong to the job, and n records that
// were created after the job.
func newWorld(t jobtest.TB, resource record.Resource, format record.Format, n int, cfg config) *world {
	t.Helper()
	w := &world{
		t: t, config: cfg, jobs: jobtest.NewStore(t, Kind), uploads: make(map[string]map[int][]byte), files: make(map[string][]byte),
		pageSize: 3, now: created,
	}
	for i := range n {
		name := fmt.Sprintf("a%d", i%5)
		w.names = append(w.names, name)
		w.insert(resource, i, record.TimeOf(created.Add(-time.Duration(i%3)*time.Second)), name)
		w.insert(resource, n+i, record.TimeOf(created.Add(time.Millisecond)), "late")
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	for _, r := range w.records {
		if r.createdAt().Compare(record.TimeOf(created)) <= 0 {
			w.want = append(w.want, r.event.ID+r.entity.ID)
		}
	}
	_, _, err := Create(context.Background(), w.jobs, jobtest.Workspace, api.ExportOrder{ID: jobtest.ID, Resource: resource, Format: format, CSVFormulas: cfg.formulas}, 1, created)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return w
}

// insert adds record i, whose only attribute has the value i. Records with adjacent numbers
// are not adjacent in the list, and some events occur at the same time.
func (w *world) insert(resource record.Resource, i int, at record.Time, name string) {
	id, attributes := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i))), record.Attributes(fmt.Sprintf(`{%q:%d}`, name, i))
	r := stored{key: id, entity: entity.Entity{ID: id, Type: "t", Attributes: attributes, CreatedAt: at, UpdatedAt: at}}
	if resource == record.Event {
		e := event.Event{ID: id, Name: "n", OccurredAt: record.TimeOf(created.Add(time.Duration(i*7%11) * time.Hour)), Attributes: attributes, CreatedAt: at}
		r = stored{key: e.Position().String(), event: e}
	}
	n, _ := slices.BinarySearchFunc(w.records, r.key, func(r stored, key string) int { return strings.Compare(r.key, key) })
	w.records = slices.Insert(w.records, n, r)
}

// life is one run of a worker, with the faults that a test injects.
type life struct {
	jobtest.Life
	*world
	lists    atomic.Int64  // life.list counts this down and fails when it reaches 0; starts at 0 for no failure
	pageTime time.Duration // how long each call to life.list takes
}

// fated returns a run in which fate decides how each call to the job store or to Files ends.
func fated(fate func(call string) jobtest.Fate) *life {
	return &life{Life: jobtest.Life{Fate: fate}}
}

// call is jobtest.Life.Call with the world locked.
func (l *life) call(name string, do func() error) error {
	return l.Call(name, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return do()
	})
}

func (l *life) Put(ctx context.Context, j job.Job) (stored job.Job, put bool, err error) {
	l.check(j)
	return l.Life.Put(ctx, j)
}

// state is all that a job stores about its work.
type state struct {
	details
	checkpoint
}

func (w *world) state(j job.Job) (s state) {
	w.t.Helper()
	if err := j.Decode(&s.details, &s.checkpoint); err != nil {
		w.t.Fatalf("%v", err)
	}
	return s
}

func (w *world) check(j job.Job) {
	s, n := w.state(j), int64(len(w.want))
	wrong := func(format string, args ...any) {
		w.t.Errorf("%s: %+v of %+v; %v", fmt.Sprintf(format, args...), s, j, w.jobs.Trace)
	}
	if s.RecordsWritten > n || s.RecordsExpected != nil && *s.RecordsExpected != n {
		wrong("the job has %d records", n)
	}
	if len(s.Parts) > 0 && s.SizeBytes == nil || s.RecordsWritten < s.Records {
		wrong("the job is larger than it reports")
	}
	if j.Status == job.Succeeded && s.RecordsWritten != n {
		wrong("not all records were written")
	}
}

type filesOf struct{ *life }

func (l filesOf) Start(context.Context, File) (upload string, err error) {
	err = l.call("start", func() error {
		l.started++
		upload = fmt.Sprint("upload-", l.started)
		l.uploads[upload] = make(map[int][]byte)
		return nil
	})
	return upload, err
}

func etag(part []byte) string {
	sum := sha256.Sum256(part)
	return hex.EncodeToString(sum[:])
}

func (l filesOf) Put(_ context.Context, f File, n int, part []byte) (string, error) {
	err := l.call("put", func() error {
		if l.uploads[f.Upload] == nil {
			return ErrUpload
		}
		l.uploads[f.Upload][n] = bytes.Clone(part)
		return nil
	})
	return etag(part), err
}

func (l filesOf) Complete(_ context.Context, f File) error {
	return l.call("complete", func() error {
		parts := l.uploads[f.Upload]
		if parts == nil {
			if int64(len(l.files[f.Key])) == f.Size {
				return nil
			}
			return ErrUpload
		}
		var file []byte
		for i, want := range f.Parts {
			if etag(parts[i+1]) != want || i < len(f.Parts)-1 && len(parts[i+1]) < l.config.PartBytes {
				return ErrUpload
			}
			file = append(file, parts[i+1]...)
		}
		l.files[f.Key] = file
		delete(l.uploads, f.Upload)
		return nil
	})
}

func (l filesOf) Abort(_ context.Context, f File) error {
	return l.call("abort", func() error {
		delete(l.uploads, f.Upload)
		return nil
	})
}

func (l filesOf) Delete(_ context.Context, f File) error {
	return l.call("delete", func() error {
		delete(l.files, f.Key)
		return nil
	})
}

func (l *life) list(ctx context.Context, cursor record.Cursor, limit int) (page []stored, next record.Cursor, err error) {
	if l.pageTime > 0 {
		select {
		case <-time.After(l.pageTime):
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	if l.Dead.Load() {
		return nil, "", jobtest.ErrDead
	}
	if l.lists.Add(-1) == 0 {
		return nil, "", jobtest.ErrBroken
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := sort.Search(len(l.records), func(i int) bool { return l.records[i].key >= string(cursor) })
	last := min(first+limit, first+l.pageSize, len(l.records))
	for _, r := range l.records[first:last] {
		if r.key == l.unreadable {
			return nil, "", jobtest.ErrBroken
		}
	}
	if last < len(l.records) {
		next = record.Cursor(l.records[last].key)
	}
	return slices.Clone(l.records[first:last]), next, nil
}

func (l *life) count(until record.Time) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.createdAt().Compare(until) <= 0 && !r.event.Expired(until) {
			n++
		}
	}
	return n, nil
}

type eventsOf struct{ *life }

func (l eventsOf) List(ctx context.Context, _ string, q event.Query) (page record.Page[event.Event], err error) {
	records, next, err := l.list(ctx, q.Cursor, q.Limit)
	for _, r := range records {
		page.Records = append(page.Records, r.event)
	}
	page.Next = next
	return page, err
}

func (l eventsOf) Count(_ context.Context, _ string, _ event.Query, until record.Time) (int64, error) {
	return l.count(until)
}

type entitiesOf struct{ *life }

func (l entitiesOf) List(ctx context.Context, _ string, q entity.Query) (page record.Page[entity.Entity], err error) {
	records, next, err := l.list(ctx, q.Cursor, q.Limit)
	for _, r := range records {
		page.Records = append(page.Records, r.entity)
	}
	page.Next = next
	return page, err
}

func (l entitiesOf) Count(_ context.Context, _ string, _ entity.Query, until record.Time) (int64, error) {
	return l.count(until)
}

// worker returns a worker whose calls go through l. Its clock advances each time it is read,
// so that checkpoints are saved several times.
func (l *life) worker() *job.Worker {
	cfg := l.config
	if cfg.life.Now == nil {
		cfg.life.Now = func() time.Time { l.now = l.now.Add(400 * time.Millisecond); return l.now }
	}
	cfg.life.Logger = slog.New(slog.DiscardHandler)
	x, err := NewExporter(entitiesOf{l}, eventsOf{l}, filesOf{l}, cfg.Config)
	if err != nil {
		l.t.Fatalf("new exporter: %v", err)
	}
	w, err := job.NewWorker(Kind, l, x, cfg.life)
	if err != nil {
		l.t.Fatalf("new worker: %v", err)
	}
	return w
}

func (w *world) deliver(ctx context.Context, l *life) error {
	l.world, l.Store = w, w.jobs
	return w.jobs.Deliver(ctx, &l.Life, l.worker())
}

func (w *world) finish() {
	w.t.Helper()
	w.jobs.Finish(func() error {
		if err := w.deliver(context.Background(), new(life)); !errors.Is(err, ErrUpload) {
			return err
		}
		return nil
	})
}

// checkFile checks that the job has succeeded and that its file has each record once, in
// order.
func (w *world) checkFile() {
	w.t.Helper()
	if w.jobs.Job().Status != job.Succeeded {
		w.t.Fatalf("the job has %s: %+v; %v", w.jobs.Job().Status, w.jobs.Job(), w.jobs.Trace)
	}
	shown := w.state(w.jobs.Job())
	file := w.files[fileOf(w.jobs.Job(), shown.details, nil).Key]
	ids, err := idsOf(shown.Format, w.names, file)
	if err != nil {
		w.t.Fatalf("%v; %v", err, w.jobs.Trace)
	}
	if !slices.Equal(ids, w.want) {
		w.t.Errorf("the file has\n%q\nwant\n%q; %v", ids, w.want, w.jobs.Trace)
	}
	if n := int64(len(w.want)); shown.RecordsWritten != n || *shown.RecordsExpected != n || *shown.SizeBytes != int64(len(file)) || w.jobs.Job().FinishedAt == nil || shown.FileExpiresAt == nil {
		w.t.Errorf("the job says %+v of %d records in %d bytes", shown, n, len(file))
	}
}

// ended checks that no upload is left. If reason is "", the job must have succeeded. Otherwise,
// it must have failed for that reason and have no file.
func (w *world) ended(reason string) {
	w.t.Helper()
	switch j := w.jobs.Job(); {
	case reason == "" && j.Status != job.Succeeded,
		reason != "" && (j.Status != job.Failed || j.Error == nil || !strings.Contains(*j.Error, reason) || j.FinishedAt == nil):
		w.t.Errorf("the job is %+v, want the reason %q", j, reason)
	}
	if len(w.uploads) > 0 || reason != "" && len(w.files) > 0 {
		w.t.Errorf("an upload or a file is left: %v %v", w.uploads, w.files)
	}
}

// unzip fails unless the file is a single gzip member.
func unzip(file []byte) ([]byte, error) {
	in := bytes.NewReader(file)
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	content, err := io.ReadAll(z)
	if err == nil && in.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the gzip member", in.Len())
	}
	return content, err
}

// idsOf returns the ids in a file. It fails if the file is CSV and its attribute columns differ
// from names.
func idsOf(format record.Format, names []string, file []byte) (ids []string, err error) {
	text, err := unzip(file)
	if err != nil {
		return nil, err
	}
	if format == record.CSV {
		lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			return nil, err
		}
		header := strings.Join(lines[0], ",")
		for _, name := range names {
			if !strings.Contains(header, ",attributes."+name) {
				return nil, fmt.Errorf("no column for %s in %s", name, header)
			}
		}
		if strings.Count(header, "attributes.") != len(names) {
			return nil, fmt.Errorf("columns %s, want those of %v", header, names)
		}
		for _, line := range lines[1:] {
			ids = append(ids, line[0])
		}
		return ids, nil
	}
	for line := range strings.Lines(string(text)) {
		var r struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// each runs test for every combination of resource and format.
func each(t *testing.T, test func(t *testing.T, resource record.Resource, format record.Format)) {
	for _, resource := range []record.Resource{record.Entity, record.Event} {
		for _, format := range []record.Format{record.NDJSON, record.CSV} {
			t.Run(fmt.Sprint(resource, " as ", format), func(t *testing.T) {
				t.Parallel()
				test(t, resource, format)
			})
		}
	}
}
