package files_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"sluice/internal/test/s3local"
	"sluice/pkg/api"
	"sluice/pkg/exportjob"
	"sluice/pkg/files"
	"sluice/pkg/job"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func TestFilesOfS3(t *testing.T) {
	server := s3local.Start(t)
	storetest.Files(t, func(t *testing.T) storetest.FileStore {
		bucket := server.Bucket(t)
		client := server.Client()
		s, err := files.NewS3(client, bucket)
		if err != nil {
			t.Fatal(err)
		}
		return storetest.FileStore{Files: s, Read: func(t *testing.T, f exportjob.File) []byte {
			out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(f.Key)})
			if missing := new(types.NoSuchKey); errors.As(err, &missing) {
				return nil
			}
			if err != nil {
				t.Fatal(err)
			}
			defer out.Body.Close() //nolint:errcheck // only read
			b, err := io.ReadAll(out.Body)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}}
	})
}

func parsed(t *testing.T, link string) *url.URL {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestALinkServesOnlyItsFile(t *testing.T) {
	t.Parallel()
	server := s3local.Start(t)
	bucket := server.Bucket(t)
	s, err := files.NewS3(server.Client(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	const content = "0123456789"
	j := storetest.File(t, s, "default", "a:b", content)
	link, err := s.Link(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	resp, body := get(t, link)
	if resp.StatusCode != http.StatusOK || string(body) != content || resp.Header.Get("Content-Type") != "application/gzip" ||
		!strings.Contains(resp.Header.Get("Content-Disposition"), "filename="+j.Name) {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, body := get(t, link, "Range", "bytes=2-4"); resp.StatusCode != http.StatusPartialContent || string(body) != "234" {
		t.Errorf("a range: %d %q", resp.StatusCode, body)
	}
	j.Name = "people.csv"
	unpacked, err := s.Link(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if query := parsed(t, unpacked).Query(); query.Get("response-content-encoding") != "gzip" || query.Get("response-content-type") != "text/csv; charset=utf-8" ||
		query.Get("response-content-disposition") != "attachment; filename=people.csv" {
		t.Errorf("a link that decompresses is %s", unpacked)
	}
	if lifetime := parsed(t, link).Query().Get("X-Amz-Expires"); lifetime != "300" {
		t.Errorf("the link is valid for %s s", lifetime)
	}
	for name, forged := range map[string]string{
		"another file":   strings.Replace(link, "event-", "entity-", 1),
		"a later expiry": strings.Replace(link, "X-Amz-Expires=300", "X-Amz-Expires=3000", 1),
		"no signature":   strings.Split(link, "?")[0],
	} {
		if resp, _ := get(t, forged); forged == link || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
}

func get(t *testing.T, target string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func sdk(server *s3local.Server) aws.Config {
	return aws.Config{
		Region: s3local.Region, BaseEndpoint: &server.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(s3local.AccessKeyID, s3local.SecretAccessKey, ""),
	}
}

// A file's key can contain characters that its link must escape.
func TestLinksToOddNames(t *testing.T) {
	t.Parallel()
	server := s3local.Start(t)
	if _, err := files.OpenS3(sdk(server), environment{}.get); err == nil {
		t.Error("no error without a bucket")
	}
	env := environment{"EXPORT_JOBS_BUCKET": server.Bucket(t), "AWS_ENDPOINT_URL_S3": server.Endpoint}
	s, err := files.OpenS3(sdk(server), env.get)
	if err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{"default", "a b/é%+~", "../x"} {
		link, err := s.Link(t.Context(), storetest.File(t, s, workspace, "a:b.c-d_e", workspace))
		if err != nil {
			t.Fatal(err)
		}
		if resp, body := get(t, link); resp.StatusCode != http.StatusOK || string(body) != workspace {
			t.Errorf("%s: %d %q", link, resp.StatusCode, body)
		}
	}
}

func TestLinksNameTheBucketInTheHostOnAWS(t *testing.T) {
	t.Parallel()
	config := aws.Config{Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "a+b/c==")}
	s, err := files.OpenS3(config, environment{"EXPORT_JOBS_BUCKET": "bucket"}.get)
	if err != nil {
		t.Fatal(err)
	}
	link, err := s.Link(t.Context(), exportjob.NewFile(job.Job{Workspace: "default", ID: "a"}, api.ExportOrder{Resource: record.Event, Format: record.NDJSON}))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if q := u.Query(); u.Host != "bucket.s3.eu-central-1.amazonaws.com" || u.Path != "/default/event-a.ndjson.gz" ||
		q.Get("X-Amz-Expires") != "300" || q.Get("X-Amz-Security-Token") != "a+b/c==" {
		t.Errorf("%s", link)
	}
}

func TestAnUnreachableServerIsNotALostUpload(t *testing.T) {
	t.Parallel()
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:9"), Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})})
	s, err := files.NewS3(client, "bucket")
	if err != nil {
		t.Fatal(err)
	}
	j := exportjob.File{Key: "default/a", Upload: "u"}
	_, startErr := s.Start(t.Context(), j)
	_, putErr := s.Put(t.Context(), j, 1, []byte("b"))
	for call, err := range map[string]error{"start": startErr, "put": putErr, "complete": s.Complete(t.Context(), j), "abort": s.Abort(t.Context(), j)} {
		if err == nil || errors.Is(err, exportjob.ErrUpload) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
