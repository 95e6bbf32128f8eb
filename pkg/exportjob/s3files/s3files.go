// Package s3files keeps export files in an S3 bucket, as multipart uploads, and
// creates presigned links to them.
package s3files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"sluice/pkg/exportjob"
)

// Client is the part of *s3.Client that a Store uses.
type Client interface {
	CreateMultipartUpload(ctx context.Context, in *s3.CreateMultipartUploadInput, opts ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error)
	UploadPart(ctx context.Context, in *s3.UploadPartInput, opts ...func(*s3.Options)) (*s3.UploadPartOutput, error)
	CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput, opts ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error)
	AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput, opts ...func(*s3.Options)) (*s3.AbortMultipartUploadOutput, error)
	HeadObject(ctx context.Context, in *s3.HeadObjectInput, opts ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
}

// Store is an exportjob.Files. It is safe for concurrent use.
type Store struct {
	client Client
	bucket string
}

// New returns a Store over the bucket of that name.
func New(client Client, bucket string) (*Store, error) {
	if client == nil || bucket == "" {
		return nil, errors.New("exportjob s3files: a client and a bucket name are required")
	}
	return &Store{client: client, bucket: bucket}, nil
}

// Open returns the Store that environment variables describe:
// EXPORT_JOBS_BUCKET names the bucket. If AWS_ENDPOINT_URL_S3 is set, the bucket
// is part of the path instead of the host.
func Open(sdk aws.Config, getenv func(string) string) (*Store, error) {
	client, bucket, err := open(sdk, getenv)
	if err != nil {
		return nil, err
	}
	return New(client, bucket)
}

func open(sdk aws.Config, getenv func(string) string) (client *s3.Client, bucket string, err error) {
	if bucket = getenv("EXPORT_JOBS_BUCKET"); bucket == "" {
		return nil, "", errors.New("EXPORT_JOBS_BUCKET: a bucket name is required")
	}
	return s3.NewFromConfig(sdk, func(o *s3.Options) {
		// A server other than AWS's has one host for all buckets, and may lack the
		// checksums that S3 has besides the signature of a body.
		o.UsePathStyle = getenv("AWS_ENDPOINT_URL_S3") != ""
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}), bucket, nil
}

// Start implements exportjob.Files.
func (s *Store) Start(ctx context.Context, j exportjob.Job) (upload string, err error) {
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.bucket, Key: aws.String(j.FileKey()),
		ContentType:        aws.String("application/gzip"),
		ContentDisposition: aws.String(mime.FormatMediaType("attachment", map[string]string{"filename": j.FileName()})),
	})
	if err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	return aws.ToString(out.UploadId), nil
}

// Put implements exportjob.Files.
func (s *Store) Put(ctx context.Context, j exportjob.Job, n int, part []byte) (etag string, err error) {
	out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &s.bucket, Key: aws.String(j.FileKey()), UploadId: &j.Progress.Upload,
		PartNumber: aws.Int32(int32(n)), Body: bytes.NewReader(part),
	})
	if err != nil {
		return "", errorOf("put part", err)
	}
	return aws.ToString(out.ETag), nil
}

// Complete implements exportjob.Files. S3 forgets an upload that has been
// completed, so that a repeat finds only the file.
func (s *Store) Complete(ctx context.Context, j exportjob.Job) error {
	parts := make([]types.CompletedPart, len(j.Progress.Parts))
	for i, part := range j.Progress.Parts {
		parts[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: aws.String(part.ETag)}
	}
	_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: aws.String(j.FileKey()), UploadId: &j.Progress.Upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	if err == nil {
		return nil
	}
	if err = errorOf("complete upload", err); !errors.Is(err, exportjob.ErrUpload) {
		return err
	}
	head, headErr := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: aws.String(j.FileKey())})
	if headErr == nil && aws.ToInt64(head.ContentLength) == *j.SizeBytes {
		return nil
	}
	return err
}

// Abort implements exportjob.Files.
func (s *Store) Abort(ctx context.Context, j exportjob.Job) error {
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &s.bucket, Key: aws.String(j.FileKey()), UploadId: &j.Progress.Upload,
	})
	if err != nil && !errors.Is(errorOf("", err), exportjob.ErrUpload) {
		return fmt.Errorf("abort upload: %w", err)
	}
	return nil
}

// errorOf returns err with ErrUpload if it means that the upload is not what the
// job remembers of it.
func errorOf(op string, err error) error {
	var apiError smithy.APIError
	if errors.As(err, &apiError) {
		switch apiError.ErrorCode() {
		case "NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall":
			return fmt.Errorf("%s: %w: %w", op, exportjob.ErrUpload, err)
		}
	}
	return fmt.Errorf("%s: %w", op, err)
}
