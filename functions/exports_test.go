package functions_test

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/internal/test/s3local"
	"sluice/pkg/api"
	"sluice/pkg/dynamo"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// These are the timeouts in template.yaml.
const (
	starterTimeout = 48 * time.Second
	workerTimeout  = 15 * time.Minute
)

// exportRecords returns the environment variable EXPORT_RECORDS, or 10,000 if it is not set.
func exportRecords(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("EXPORT_RECORDS"), "10000"))
	if err != nil || n < 10_000 {
		t.Fatalf("EXPORT_RECORDS=%q, want 10000 or more", os.Getenv("EXPORT_RECORDS"))
	}
	return n
}

// imported is when all events were created, and when the first three of them occurred.
var imported = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// eventsOf returns a function that returns the i-th event in the order of an export. random is
// the number of random bytes in an event's attributes. These bytes are in base64 and barely
// compress, so a file of many events has several parts. Events 0 to 2 occurred at the same time,
// events 3 to 5 a millisecond later, and so on.
func eventsOf(random int) func(i int) event.Event {
	return func(i int) event.Event {
		text := make([]byte, random)
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Read(text) // Read never fails
		return event.Event{
			ID: fmt.Sprintf("e%07d", i), Name: "measured",
			OccurredAt: record.TimeOf(imported.Add(time.Duration(i/3) * time.Millisecond)), CreatedAt: record.TimeOf(imported),
			Attributes: record.Attributes(fmt.Sprintf(`{"n":%d.50,"text":"%s"}`, i, base64.StdEncoding.EncodeToString(text))),
		}
	}
}

// importedEvent returns events of 2 KB each, so 10,000 of them fill three parts of a file.
var importedEvent = eventsOf(1500)

func line(t testing.TB, e event.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// batches is a client for a store that only creates events. It combines puts into batches.
type batches struct {
	*dynamodb.Client
	table string
	items chan map[string]types.AttributeValue
}

func (b *batches) PutItem(_ context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	b.items <- in.Item
	return new(dynamodb.PutItemOutput), nil
}

// write stores the queued items until b.items is closed.
func (b *batches) write(ctx context.Context) error {
	var puts []types.WriteRequest
	for open := true; open; {
		var item map[string]types.AttributeValue
		if item, open = <-b.items; open {
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item}})
		}
		if len(puts) == 25 || !open && len(puts) > 0 {
			out, err := b.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{b.table: puts}})
			if err != nil {
				return err
			}
			if len(out.UnprocessedItems) > 0 {
				return errors.New("the engine did not accept all items")
			}
			puts = nil
		}
	}
	return nil
}

func importEvents(t testing.TB, client *dynamodb.Client, table string, shards, n int, nth func(int) event.Event) {
	t.Helper()
	b := &batches{Client: client, table: table, items: make(chan map[string]types.AttributeValue)}
	var e event.Event
	store, err := dynamo.NewEvents(b, table, dynamo.EventsConfig{Shards: dynamo.Shards{Write: shards}, Now: func() time.Time { return e.CreatedAt.Time() }})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			if err := b.write(t.Context()); err != nil {
				t.Error(err)
				for range b.items { // unblock the senders
				}
			}
		})
	}
	for i := range n {
		e = nth(i)
		d := event.Draft{ID: e.ID, Name: e.Name, EntityID: e.EntityID, OccurredAt: &e.OccurredAt, Attributes: e.Attributes}
		if _, _, err := store.Create(t.Context(), "default", d); err != nil {
			t.Error(err)
			break
		}
	}
	close(b.items)
	writers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// exports is a deployment with a bucket. Tests run its functions as Lambda does.
type exports struct {
	deployment
	client          *dynamodb.Client
	bucket          string // endpoint of the S3 server
	starter, worker string // paths of the binaries
	jobs            *dynamo.Jobs
	fast, slow      *stream // streams of the starter and the worker
	create          *lambdatest.Instance
	get             *lambdatest.Instance
	files           func() int // counts objects and uploads in the bucket
}

func deployExports(t *testing.T, engine *dynamolocal.Engine, shards int) *exports {
	t.Helper()
	server := s3local.Start(t)
	table, bucket := engine.Table(t, "ExportJobsTable"), server.Bucket(t)
	d := deployOn(t, engine, engine.Endpoint)
	d.env = append(d.env, "EVENT_SHARDS="+strconv.Itoa(shards), "EXPORT_JOBS_TABLE="+table,
		"EXPORT_JOBS_BUCKET="+bucket, "EXPORT_FILE_DAYS=7", "AWS_ENDPOINT_URL_S3="+server.Endpoint)
	jobs, err := dynamo.NewJobs(engine.Client(), exportjob.Kind, table)
	if err != nil {
		t.Fatal(err)
	}
	return &exports{
		deployment: d, client: engine.Client(), bucket: server.Endpoint, jobs: jobs,
		starter: lambdatest.Build(t, "export-starter"), worker: lambdatest.Build(t, "export-worker"),
		fast: openStream(t, engine, table, "export-starter"), slow: openStream(t, engine, table, "export-worker"),
		create: d.start(t, "create-export-job", 1)[0], get: d.start(t, "get-export-job", 1)[0],
		files: func() int {
			objects, err := server.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
			if err != nil {
				t.Fatal(err)
			}
			uploads, err := server.Client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
			if err != nil {
				t.Fatal(err)
			}
			return len(objects.Contents) + len(uploads.Uploads)
		},
	}
}

// order creates a job and returns the event that invokes the starter.
func (x *exports) order(t *testing.T, id, rest string) any {
	t.Helper()
	invoke(t, x.create, lambdatest.Event("POST", "/create_export_job", "192.0.2.1", fmt.Sprintf(`{"id":"%s",%s}`, id, rest)), http.StatusCreated)
	return x.fast.next(t)
}

// exportJob is a stored job. Lists show the part in shown, and runs save their checkpoint.
type exportJob struct {
	job.Job
	shown      api.ExportJob
	checkpoint struct {
		Parts   []string
		Records int64
		Written bool
		Survey  struct{ Records int64 }
	}
}

func (x *exports) job(t *testing.T, id string) (j exportJob) {
	t.Helper()
	var err error
	if j.Job, err = x.jobs.Get(t.Context(), "default", id); err == nil {
		err = j.Decode(&j.shown, &j.checkpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// run starts a function in a new process and waits until it has processed the event.
func (x *exports) run(t *testing.T, binary string, ev any, timeout time.Duration) *lambdatest.Instance {
	t.Helper()
	instance := lambdatest.Start(t, binary, x.env...)
	if _, err := instance.Handle(t.Context(), ev, timeout); err != nil {
		t.Fatal(err)
	}
	return instance
}

// runUntil kills the worker as soon as due returns true for the stored job.
func (x *exports) runUntil(t *testing.T, ev any, id string, due func(exportJob) bool) {
	t.Helper()
	killWorker(t, lambdatest.Start(t, x.worker, x.env...), ev, func() bool { return due(x.job(t, id)) })
}

// file returns the decompressed file of a job, which must have succeeded.
func (x *exports) file(t *testing.T, id string, records int) io.Reader {
	t.Helper()
	ev := lambdatest.Event("GET", "/export_job/"+id, "192.0.2.1", "")
	var j api.ExportJob
	if err := json.Unmarshal([]byte(invoke(t, x.get, ev, http.StatusOK).Body), &j); err != nil {
		t.Fatal(err)
	}
	if j.Status != job.Succeeded || j.DownloadURL == nil || j.RecordsWritten != int64(records) || *j.RecordsExpected != int64(records) {
		t.Fatalf("the job is %+v, want %d records", j, records)
	}
	resp, err := http.Get(*j.DownloadURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() }) //nolint:errcheck // the body is only read
	if resp.StatusCode != http.StatusOK || resp.ContentLength != *j.SizeBytes {
		t.Fatalf("status %d, %d bytes; the job says %d", resp.StatusCode, resp.ContentLength, *j.SizeBytes)
	}
	unzip, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return unzip
}

// wantLines checks that a file contains exactly the first n imported events, in order.
func wantLines(t *testing.T, file io.Reader, n int) {
	t.Helper()
	lines := bufio.NewReader(file)
	for i := range n {
		got, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if want := line(t, importedEvent(i)); !bytes.Equal(got, want) {
			t.Fatalf("line %d is\n%swant\n%s", i, got, want)
		}
	}
	if more, err := lines.ReadBytes('\n'); err != io.EOF {
		t.Errorf("after %d lines there is %q, error %v", n, more, err)
	}
}

// TestLargeExports exports EXPORT_RECORDS events, and compares the worker's peak memory with
// that of an export of at most 50,000 events.
func TestLargeExports(t *testing.T) {
	t.Parallel()
	const shards = 2
	n := exportRecords(t)
	engine := dynamolocal.Start(t) // not shared, because stopping an engine is faster than deleting a large table
	x := deployExports(t, engine, shards)
	importEvents(t, x.client, x.events, shards, n, importedEvent)
	// A job waits record.SyncLag before it runs, so create these jobs before the first subtest.
	lanes := x.order(t, "two-lanes", `"resource":"event","format":"csv"`)
	killed := x.order(t, "killed", `"resource":"event","format":"ndjson"`)
	small := min(50_000, n/2)
	var measured []any
	for i, records := range []int{small, small, n} { // small twice, because garbage collection makes the peak vary
		to, err := json.Marshal(importedEvent(records).OccurredAt)
		if err != nil {
			t.Fatal(err)
		}
		measured = append(measured, x.order(t, fmt.Sprint("memory-", i), fmt.Sprintf(`"resource":"event","format":"ndjson","filters":{"to":%s}`, to)))
	}

	t.Run("a job that is cancelled", func(t *testing.T) { // runs first, because it checks that no files are left in the bucket
		const id = "cancelled"
		cancel := x.start(t, "cancel-export-job", 1)[0]
		ev := x.order(t, id, `"resource":"event","format":"ndjson"`)
		x.runUntil(t, ev, id, func(j exportJob) bool { return len(j.checkpoint.Parts) > 0 })
		if x.files() == 0 {
			t.Fatal("there was no upload, so this test proves nothing")
		}
		invoke(t, cancel, lambdatest.Event("POST", "/cancel_export_job", "192.0.2.1", `{"id":"`+id+`"}`), http.StatusOK)
		x.run(t, x.starter, x.fast.next(t), starterTimeout) // a cancelled job goes to the fast lane, even if the worker has run it
		if n := x.files(); n != 0 || x.job(t, id).Status != job.Cancelled {
			t.Errorf("%d files and uploads are left; the job is %+v", n, x.job(t, id))
		}
		x.run(t, x.worker, ev, workerTimeout) // Lambda retries the run that was killed
		if n := x.files(); n != 0 {
			t.Errorf("%d files and uploads are left by a late run", n)
		}
	})

	t.Run("a first run that hands the job over", func(t *testing.T) {
		const id = "two-lanes"
		proxy := dynamoproxy.Start(t, engine.Endpoint)
		proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
			if call.Table == x.events {
				// This delay keeps the first run from reading all pages.
				return dynamoproxy.Fault{Delay: 300 * time.Millisecond}
			}
			return dynamoproxy.Fault{}
		})
		slow := *x
		slow.env = append(slices.Clone(x.env), "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL) // overrides the earlier value
		slow.run(t, x.starter, lanes, starterTimeout)
		j := x.job(t, id)
		t.Logf("the starter left the job %s with %d records in %d parts", j.Status, j.checkpoint.Records+j.checkpoint.Survey.Records, len(j.checkpoint.Parts))
		if j.Status != job.Queued {
			t.Errorf("the job is %+v after its first run, want it queued", j)
		}
		x.run(t, x.worker, x.slow.next(t), workerTimeout)
		if j := x.job(t, id); j.Status != job.Succeeded || j.shown.RecordsWritten != int64(n) {
			t.Errorf("the job is %+v", j)
		}
	})

	t.Run("a worker that is killed twice", func(t *testing.T) {
		const id = "killed"
		after := x.job(t, id).CreatedAt.Time().Add(time.Millisecond)
		importEvents(t, x.client, x.events, shards, 500, func(i int) event.Event {
			e := importedEvent(i * 100)
			e.ID, e.CreatedAt = fmt.Sprint("late-", i), record.TimeOf(after)
			return e
		})
		var before exportJob
		for _, parts := range []int{1, 2} {
			x.runUntil(t, killed, id, func(j exportJob) bool {
				before = j
				return len(j.checkpoint.Parts) >= parts
			})
			if j := x.job(t, id); j.Status != job.Running || len(j.checkpoint.Parts) < parts || j.checkpoint.Written {
				t.Fatalf("the worker was killed when the job was %+v; now it is %+v", before, j)
			} else {
				t.Logf("killed with %d of %d records in %d parts", j.checkpoint.Records, n, len(j.checkpoint.Parts))
			}
		}
		x.run(t, x.worker, killed, workerTimeout)
		wantLines(t, x.file(t, id, n), n)
		done := x.job(t, id)
		x.run(t, x.worker, killed, workerTimeout) // Lambda may deliver an event more than once
		if again := x.job(t, id); again.Revision != done.Revision {
			t.Errorf("the second delivery changed the job to %+v", again)
		}
	})

	t.Run("memory", func(t *testing.T) {
		var peaks []int64
		for i, ev := range measured {
			id := fmt.Sprint("memory-", i)
			instance := x.run(t, x.worker, ev, workerTimeout)
			peak, err := instance.Memory("VmHWM")
			if err != nil {
				t.Fatal(err)
			}
			j := x.job(t, id)
			t.Logf("%d records, %d bytes in %v: peak memory %d KB", j.shown.RecordsWritten, *j.shown.SizeBytes, j.FinishedAt.Time().Sub(j.StartedAt.Time()), peak>>10)
			peaks = append(peaks, peak)
			if age := j.FinishedAt.Time().Sub(j.CreatedAt.Time()); age < record.SyncLag {
				t.Errorf("the file of a job was complete after %v, before the indexes have all older records", age)
			}
		}
		if peaks[2] > max(peaks[0], peaks[1])*12/10 || peaks[2] >= 128<<20 {
			t.Errorf("peak memory of %d bytes for %d records, %d for %d", peaks[2], n, peaks[:2], small)
		}
	})
}
