package files

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

// S3 is an exportjob.Files and exportjob.Links in a bucket, with multipart uploads and
// presigned links. It is safe for concurrent use.
type S3 struct {
	client *s3.Client
	links  *s3.PresignClient
	bucket string
}

// NewS3 fails if client is nil or the bucket name is empty.
func NewS3(client *s3.Client, bucket string) (*S3, error) {
	if client == nil || bucket == "" {
		return nil, errors.New("files: a client and a bucket name are required")
	}
	return &S3{client: client, links: s3.NewPresignClient(client, s3.WithPresignExpires(LinkLifetime)), bucket: bucket}, nil
}

// OpenS3 opens the bucket that EXPORT_JOBS_BUCKET names. If AWS_ENDPOINT_URL_S3 is set, URLs
// have the bucket name in the path, not in the host.
func OpenS3(sdk aws.Config, getenv func(string) string) (*S3, error) {
	s, err := NewS3(s3.NewFromConfig(sdk, func(o *s3.Options) {
		// Servers other than S3 usually have one host name for all buckets, and some lack S3's
		// additional checksums.
		o.UsePathStyle = getenv("AWS_ENDPOINT_URL_S3") != ""
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}), getenv("EXPORT_JOBS_BUCKET"))
	if err != nil {
		return nil, fmt.Errorf("EXPORT_JOBS_BUCKET: %w", err)
	}
	return s, nil
}

func (s *S3) Start(ctx context.Context, f exportjob.File) (upload string, err error) {
	out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.bucket, Key: &f.Key,
		ContentType:        aws.String("application/gzip"),
		ContentDisposition: aws.String(disposition(f)),
	})
	if err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	return aws.ToString(out.UploadId), nil
}

// disposition returns the Content-Disposition that gives a download its file name.
func disposition(f exportjob.File) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": f.Name})
}

func (s *S3) Put(ctx context.Context, f exportjob.File, n int, part []byte) (etag string, err error) {
	out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &s.bucket, Key: &f.Key, UploadId: &f.Upload,
		PartNumber: aws.Int32(int32(n)), Body: bytes.NewReader(part),
	})
	if err != nil {
		return "", s3Error("put part", err)
	}
	return aws.ToString(out.ETag), nil
}

// Complete implements exportjob.Files. S3 removes a completed upload, so a repeated call finds
// only the file.
func (s *S3) Complete(ctx context.Context, f exportjob.File) error {
	parts := make([]types.CompletedPart, len(f.Parts))
	for i, etag := range f.Parts {
		parts[i] = types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ETag: &etag}
	}
	_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: &f.Key, UploadId: &f.Upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	if err == nil {
		return nil
	}
	if err = s3Error("complete upload", err); !errors.Is(err, exportjob.ErrUpload) {
		return err
	}
	head, headErr := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &f.Key})
	if headErr == nil && aws.ToInt64(head.ContentLength) == f.Size {
		return nil
	}
	return err
}

func (s *S3) Abort(ctx context.Context, f exportjob.File) error {
	if f.Upload == "" {
		return nil
	}
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &s.bucket, Key: &f.Key, UploadId: &f.Upload,
	})
	if err != nil && !errors.Is(s3Error("", err), exportjob.ErrUpload) {
		return fmt.Errorf("abort upload: %w", err)
	}
	return nil
}

// Delete implements exportjob.Files. S3 reports success if there is no file.
func (s *S3) Delete(ctx context.Context, f exportjob.File) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &f.Key})
	if err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	return nil
}

// Link implements exportjob.Links without a call to S3, so the file may not exist.
func (s *S3) Link(ctx context.Context, f exportjob.File) (string, error) {
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &f.Key, ResponseContentDisposition: aws.String(disposition(f))}
	if mediaType, unpacked := f.Unpacked(); unpacked {
		in.ResponseContentType, in.ResponseContentEncoding = &mediaType, aws.String("gzip")
	}
	link, err := s.links.PresignGetObject(ctx, in)
	if err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	return link.URL, nil
}

// s3Error also wraps ErrUpload if the upload is missing or does not match the file's parts.
func s3Error(op string, err error) error {
	if apiError, ok := errors.AsType[smithy.APIError](err); ok {
		switch apiError.ErrorCode() {
		case "NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall":
			return fmt.Errorf("%s: %w: %w", op, exportjob.ErrUpload, err)
		}
	}
	return fmt.Errorf("%s: %w", op, err)
}
