package s3files

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"sluice/pkg/exportjob"
)

// LinkLifetime is how long a link is valid, unless the credentials that signed it
// expire sooner.
const LinkLifetime = 15 * time.Minute

// Links is an exportjob.Links. It is safe for concurrent use.
type Links struct {
	client *s3.PresignClient
	bucket string
}

// OpenLinks returns the Links of the bucket that Open describes.
func OpenLinks(sdk aws.Config, getenv func(string) string) (*Links, error) {
	client, bucket, err := open(sdk, getenv)
	if err != nil {
		return nil, err
	}
	return &Links{client: s3.NewPresignClient(client, s3.WithPresignExpires(LinkLifetime)), bucket: bucket}, nil
}

// Link implements exportjob.Links without a call to S3. It does not check that
// the file exists.
func (l *Links) Link(ctx context.Context, j exportjob.Job) (string, error) {
	link, err := l.client.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &l.bucket, Key: aws.String(j.FileKey())})
	if err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	return link.URL, nil
}
