package s3files_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"sluice/internal/s3local"
	"sluice/pkg/exportjob"
	"sluice/pkg/exportjob/s3files"
	"sluice/pkg/exportjob/storetest"
)

func TestFiles(t *testing.T) {
	server := s3local.Start(t)
	storetest.RunFiles(t, func(t *testing.T) storetest.FileStore {
		bucket := server.Bucket(t)
		client := server.Client()
		s, err := s3files.New(client, bucket)
		if err != nil {
			t.Fatal(err)
		}
		return storetest.FileStore{Files: s, Read: func(t *testing.T, j exportjob.Job) []byte {
			out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(j.FileKey())})
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

func TestALinkGivesOutTheFileAndNothingElse(t *testing.T) {
	t.Parallel()
	server := s3local.Start(t)
	bucket := server.Bucket(t)
	s, err := s3files.New(server.Client(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	links, err := s3files.OpenLinks(sdk(server), environment{"EXPORT_JOBS_BUCKET": bucket, "AWS_ENDPOINT_URL_S3": server.Endpoint}.get)
	if err != nil {
		t.Fatal(err)
	}
	const content = "0123456789"
	link, err := links.Link(t.Context(), storetest.File(t, s, "default", "a:b", content))
	if err != nil {
		t.Fatal(err)
	}
	resp, body := get(t, link)
	if resp.StatusCode != http.StatusOK || string(body) != content || resp.Header.Get("Content-Type") != "application/gzip" ||
		!strings.Contains(resp.Header.Get("Content-Disposition"), "event-a:b.ndjson.gz") {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	if resp, body := get(t, link, "Range", "bytes=2-4"); resp.StatusCode != http.StatusPartialContent || string(body) != "234" {
		t.Errorf("a range: %d %q", resp.StatusCode, body)
	}
	parsed, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if lifetime := parsed.Query().Get("X-Amz-Expires"); lifetime != "900" {
		t.Errorf("the link is good for %s s", lifetime)
	}
	for name, forged := range map[string]string{
		"another file":  strings.Replace(link, "event-", "entity-", 1),
		"a longer life": strings.Replace(link, "X-Amz-Expires=900", "X-Amz-Expires=9000", 1),
		"no signature":  strings.Split(link, "?")[0],
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

// sdk is the configuration for the server.
func sdk(server *s3local.Server) aws.Config {
	return aws.Config{
		Region: s3local.Region, BaseEndpoint: &server.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(s3local.AccessKeyID, s3local.SecretAccessKey, ""),
	}
}

func TestOpenReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	server := s3local.Start(t)
	env := environment{"EXPORT_JOBS_BUCKET": server.Bucket(t), "AWS_ENDPOINT_URL_S3": server.Endpoint}
	s, err := s3files.Open(sdk(server), env.get)
	if err != nil {
		t.Fatal(err)
	}
	links, err := s3files.OpenLinks(sdk(server), env.get)
	if err != nil {
		t.Fatal(err)
	}
	link, err := links.Link(t.Context(), storetest.File(t, s, "default", "a", "content"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := get(t, link); resp.StatusCode != http.StatusOK || string(body) != "content" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	delete(env, "EXPORT_JOBS_BUCKET")
	if _, err := s3files.Open(sdk(server), env.get); err == nil {
		t.Error("no error without a bucket")
	}
	if _, err := s3files.OpenLinks(sdk(server), env.get); err == nil {
		t.Error("no error without a bucket")
	}
}

// Links are made without the SDK's client, and must be those that it makes.
func TestLinksAreThoseOfTheSDK(t *testing.T) {
	for name, env := range map[string]environment{
		"AWS":                   {},
		"dual stack":            {"AWS_USE_DUALSTACK_ENDPOINT": "true"},
		"FIPS":                  {"AWS_USE_FIPS_ENDPOINT": "TRUE"},
		"FIPS and dual stack":   {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
		"China":                 {"AWS_REGION": "cn-north-1"},
		"GovCloud":              {"AWS_REGION": "us-gov-west-1", "AWS_USE_FIPS_ENDPOINT": "true"},
		"a name with dots":      {"EXPORT_JOBS_BUCKET": "files.example.com"},
		"a session":             {"AWS_SESSION_TOKEN": "a+b/c=="},
		"an endpoint for S3":    {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:7070"},
		"one with a path":       {"AWS_ENDPOINT_URL_S3": "https://files.example.com/a/"},
		"one for all":           {"AWS_ENDPOINT_URL": "https://aws.example.com"},
		"one of each":           {"AWS_ENDPOINT_URL_S3": "https://s3.example.com", "AWS_ENDPOINT_URL": "https://aws.example.com"},
		"one for all, not used": {"AWS_ENDPOINT_URL": "https://aws.example.com", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range map[string]string{
				"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "EXPORT_JOBS_BUCKET": "bucket",
			} {
				if env[name] == "" {
					env[name] = value
				}
			}
			for name, value := range env {
				t.Setenv(name, value)
			}
			sdk, err := config.LoadDefaultConfig(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			links, err := s3files.OpenLinks(sdk, env.get)
			if err != nil {
				t.Fatal(err)
			}
			client := s3.NewPresignClient(s3.NewFromConfig(sdk, func(o *s3.Options) {
				o.UsePathStyle = env["AWS_ENDPOINT_URL_S3"] != ""
				o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
			}), s3.WithPresignExpires(s3files.LinkLifetime))
			for _, j := range []exportjob.Job{
				{Workspace: "default", Resource: exportjob.Event, Format: exportjob.NDJSON, ID: "a:b.c-d_e"},
				{Workspace: "a b/é%+~", Resource: exportjob.Entity, Format: exportjob.CSV, ID: "0"},
			} {
				for { // both within a second
					want, err := client.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(env["EXPORT_JOBS_BUCKET"]), Key: aws.String(j.FileKey())})
					if err != nil {
						t.Fatal(err)
					}
					got, err := links.Link(t.Context(), j)
					if err != nil {
						t.Fatal(err)
					}
					if date(t, got) == date(t, want.URL) {
						if got != want.URL {
							t.Errorf("got\n%s\nwant\n%s", got, want.URL)
						}
						break
					}
				}
			}
		})
	}
}

func date(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("X-Amz-Date")
}

func TestAServerThatIsAwayIsNotALostUpload(t *testing.T) {
	t.Parallel()
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:9"), Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		})})
	s, err := s3files.New(client, "bucket")
	if err != nil {
		t.Fatal(err)
	}
	j := exportjob.Job{ID: "a", Workspace: "default", Progress: exportjob.Progress{Upload: "u"}}
	_, startErr := s.Start(t.Context(), j)
	_, putErr := s.Put(t.Context(), j, 1, []byte("b"))
	for call, err := range map[string]error{"start": startErr, "put": putErr, "complete": s.Complete(t.Context(), j), "abort": s.Abort(t.Context(), j)} {
		if err == nil || errors.Is(err, exportjob.ErrUpload) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
