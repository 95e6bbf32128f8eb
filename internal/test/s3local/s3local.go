// Package s3local runs Versity S3 Gateway on a directory for tests, as a child process that
// ends with the test process.
//
// "make versitygw" builds the gateway as .cache/versitygw/versitygw. The environment variable
// VERSITYGW can name another path. If the gateway is missing, tests that need it are skipped,
// or fail if the environment variable CI is set.
package s3local

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"sluice/internal/test/child"
)

// The region and the credentials that clients must use.
const (
	Region          = "us-east-1"
	AccessKeyID     = "test"
	SecretAccessKey = "test"
)

const startTimeout = 30 * time.Second

type Server struct {
	Endpoint string // http://127.0.0.1:PORT
}

// Start starts a server for the test. The server has no buckets yet.
func Start(t testing.TB) *Server {
	t.Helper()
	program := locate(t)
	var p *child.Process
	var s *Server
	reservation, err := child.OnFreePort(func(port int) (err error) {
		s = &Server{Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port)}
		p, err = s.run(t, program)
		return err
	})
	if err != nil {
		t.Fatalf("start versitygw: %v", err)
	}
	t.Cleanup(func() {
		p.Kill()
		reservation.Close() //nolint:errcheck // nothing was written to the listener
	})
	return s
}

// run starts the gateway and waits until it can list buckets.
func (s *Server) run(t testing.TB, program string) (*child.Process, error) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"buckets", "metadata"} { // metadata gets its own directory, because some file systems cannot store metadata with the files
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	p, err := child.StartTied(program, "--access", AccessKeyID, "--secret", SecretAccessKey, "--region", Region,
		"--port", strings.TrimPrefix(s.Endpoint, "http://"), "--quiet",
		"posix", "--sidecar", filepath.Join(dir, "metadata"), filepath.Join(dir, "buckets"))
	if err != nil {
		return nil, err
	}
	client := s.Client(func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	err = p.Ready(t.Context(), startTimeout, func(ctx context.Context) error {
		_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
		return err
	})
	if err != nil {
		p.Kill()
	}
	return p, err
}

// Client returns a client for s with the SDK's defaults, which options can change.
func (s *Server) Client(options ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Region:       Region,
		BaseEndpoint: &s.Endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider(AccessKeyID, SecretAccessKey, ""),
		UsePathStyle: true,
	}, options...)
}

// Bucket creates an empty bucket and returns its unique name.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := "exports-" + strings.ToLower(rand.Text())
	if _, err := s.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatalf("create bucket: %v", err)
	}
	return name
}

func locate(t testing.TB) string {
	t.Helper()
	program := os.Getenv("VERSITYGW")
	if program == "" {
		program = child.Cached(t, "versitygw/versitygw")
	}
	_, err := os.Stat(program)
	child.Require(t, err, "Run: make versitygw")
	return program
}
