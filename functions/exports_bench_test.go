package functions_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/s3local"
	"sluice/pkg/dynamo"
	"sluice/pkg/event"
	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/worker"
	"sluice/pkg/files"
	"sluice/pkg/record"
)

// BenchmarkExport compares an export by the worker with two simple loops. Both loops read
// the same table with Query, in pages of the same length, and write the same lines. One
// loop uploads the same compressed parts to the same server. The other loop only writes
// the lines to a file on disk. The export and the two loops take turns.
//
//	go test -run NONE -bench Export -benchtime 5x ./functions
func BenchmarkExport(b *testing.B) {
	const records, page, shards = 50_000, 1000, 1
	engine, server := dynamolocal.Start(b), s3local.Start(b)
	client, bucket, table := engine.Client(), server.Bucket(b), engine.Table(b, "EventsTable")
	importEvents(b, client, table, shards, records, eventsOf(420))
	files, err := files.NewS3(server.Client(), bucket)
	if err != nil {
		b.Fatal(err)
	}
	jobs, err := dynamo.NewExportJobs(client, engine.Table(b, "ExportJobsTable"))
	if err != nil {
		b.Fatal(err)
	}
	entities, err := dynamo.NewEntities(client, "none", dynamo.EntitiesConfig{})
	if err != nil {
		b.Fatal(err)
	}
	events, err := dynamo.NewEvents(client, table, dynamo.EventsConfig{Shards: shards})
	if err != nil {
		b.Fatal(err)
	}
	w, err := worker.New(jobs, entities, events, files, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	jobOf := func(id string) exportjob.Job {
		return exportjob.Job{ID: id, Workspace: "default", Resource: record.Event, Format: exportjob.NDJSON}
	}
	export := func(n int) {
		id := fmt.Sprint("worker-", n)
		if _, _, err := exportjob.Create(b.Context(), jobs, jobOf(id), exportjob.DefaultQuota, time.Now()); err != nil {
			b.Fatal(err)
		}
		if err := w.Run(b.Context(), "default", id); err != nil {
			b.Fatal(err)
		}
	}
	loopToParts := func(n int) {
		u := &uploader{ctx: b.Context(), files: files, job: jobOf(fmt.Sprint("loop-", n))}
		if u.job.Progress.Upload, err = files.Start(u.ctx, u.job); err != nil {
			b.Fatal(err)
		}
		u.gzip, _ = gzip.NewWriterLevel(&u.part, gzip.BestSpeed)
		queryAll(b, client, table, page, u)
		if err := u.end(); err != nil {
			b.Fatal(err)
		}
		if err := files.Complete(u.ctx, u.job); err != nil {
			b.Fatal(err)
		}
	}
	loopToFile := func(n int) {
		f, err := os.Create(filepath.Join(b.TempDir(), fmt.Sprint(n)))
		if err != nil {
			b.Fatal(err)
		}
		queryAll(b, client, table, page, f)
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	var took [3]time.Duration
	n := 0
	for b.Loop() {
		for i, do := range []func(int){export, loopToParts, loopToFile} {
			began := time.Now()
			do(n)
			took[i] += time.Since(began)
		}
		n++
	}
	for i, name := range []string{"worker", "loop-to-parts", "loop-to-file"} {
		b.ReportMetric(float64(records*n)/took[i].Seconds(), name+"-records/s")
	}
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "of-loop-to-parts")
	b.ReportMetric(took[2].Seconds()/took[0].Seconds(), "of-loop-to-file")
	if a, l := contentOf(b, server, bucket, jobOf("worker-0")), contentOf(b, server, bucket, jobOf("loop-0")); !bytes.Equal(a, l) {
		b.Error("the files differ")
	}
}

// queryAll writes the line of every event in the table to w.
func queryAll(b *testing.B, client *dynamodb.Client, table string, page int32, w io.Writer) {
	b.Helper()
	in := &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String("by_position"), Limit: &page,
		KeyConditionExpression:    aws.String("#shard = :shard"),
		ExpressionAttributeNames:  map[string]string{"#shard": "shard"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":shard": &types.AttributeValueMemberS{Value: "default#0"}},
	}
	for pages := dynamodb.NewQueryPaginator(client, in); pages.HasMorePages(); {
		out, err := pages.NextPage(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, item := range out.Items {
			text := func(name string) string {
				value, _ := item[name].(*types.AttributeValueMemberS)
				if value == nil {
					return ""
				}
				return value.Value
			}
			occurred, err := record.ParseTime(text("occurred_at"))
			if err != nil {
				b.Fatal(err)
			}
			created, err := record.ParseTime(text("created_at"))
			if err != nil {
				b.Fatal(err)
			}
			line, err := json.Marshal(event.Event{
				ID: text("id"), Name: text("name"), EntityID: event.OptionalID(text("entity_id")),
				OccurredAt: occurred, Attributes: record.Attributes(text("attributes")), CreatedAt: created,
			}, jsontext.PreserveRawStrings(true))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// uploader compresses its input and uploads it in parts of 5 MiB.
type uploader struct {
	ctx   context.Context
	files exportjob.Files
	job   exportjob.Job
	gzip  *gzip.Writer
	part  bytes.Buffer
}

func (u *uploader) Write(p []byte) (int, error) {
	n, err := u.gzip.Write(p)
	if err == nil && u.part.Len() >= 5<<20 {
		err = u.end()
		u.gzip.Reset(&u.part)
	}
	return n, err
}

// end completes the gzip stream of the current part and uploads the part.
func (u *uploader) end() error {
	if err := u.gzip.Close(); err != nil {
		return err
	}
	etag, err := u.files.Put(u.ctx, u.job, len(u.job.Progress.Parts)+1, u.part.Bytes())
	u.job.Progress.Parts = append(u.job.Progress.Parts, etag)
	u.part.Reset()
	return err
}

// contentOf returns a hash of the uncompressed file of a job.
func contentOf(b *testing.B, server *s3local.Server, bucket string, j exportjob.Job) []byte {
	b.Helper()
	object := server.Object(b, bucket, j.FileKey())
	defer object.Close() //nolint:errcheck // the object is only read
	unzip, err := gzip.NewReader(object)
	if err != nil {
		b.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, unzip); err != nil {
		b.Fatal(err)
	}
	return sum.Sum(nil)
}
