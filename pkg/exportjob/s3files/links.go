package s3files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/encoding/httpbinding"

	"sluice/pkg/exportjob"
)

// LinkLifetime is how long a link is good, unless the credentials that signed it
// end sooner.
const LinkLifetime = 15 * time.Minute

// Links is an exportjob.Links. It is safe for concurrent use.
//
// It signs as the SDK's PresignClient does, and has the SDK's rules for
// endpoints, but links no client: that is a third of a megabyte more for a
// function to start with.
type Links struct {
	signer      *v4.Signer
	credentials aws.CredentialsProvider
	region      string
	bucket      url.URL // what the keys of files are appended to
}

// OpenLinks is Open for Links. It reads the SDK's variables for endpoints as the
// SDK's client does: AWS_ENDPOINT_URL_S3, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS,
// AWS_USE_FIPS_ENDPOINT and AWS_USE_DUALSTACK_ENDPOINT.
func OpenLinks(sdk aws.Config, getenv func(string) string) (*Links, error) {
	bucket := getenv("EXPORT_JOBS_BUCKET")
	if bucket == "" {
		return nil, errors.New("EXPORT_JOBS_BUCKET: a bucket name is required")
	}
	on := func(name string) *bool { return aws.Bool(strings.EqualFold(getenv(name), "true")) }
	parameters := s3.EndpointParameters{
		Bucket: &bucket, Region: &sdk.Region,
		UseFIPS: on("AWS_USE_FIPS_ENDPOINT"), UseDualStack: on("AWS_USE_DUALSTACK_ENDPOINT"),
		ForcePathStyle: aws.Bool(getenv("AWS_ENDPOINT_URL_S3") != ""), // as in Open
	}
	endpoint := cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), aws.ToString(sdk.BaseEndpoint))
	if endpoint != "" && !*on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
		parameters.Endpoint = &endpoint
	}
	at, err := s3.NewDefaultEndpointResolverV2().ResolveEndpoint(context.Background(), parameters)
	if err != nil {
		return nil, fmt.Errorf("find the bucket %s: %w", bucket, err)
	}
	// S3 signs paths as they are, not escaped once more.
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	return &Links{signer: signer, credentials: sdk.Credentials, region: sdk.Region, bucket: at.URI}, nil
}

// Link implements exportjob.Links without a call: whether the file is there, its
// lifetime alone tells.
func (l *Links) Link(ctx context.Context, j exportjob.Job) (string, error) {
	credentials, err := l.credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	u := l.bucket
	// The signature is of the path with ':' and the like escaped, which net/url
	// would leave.
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + "/" + httpbinding.EscapePath(j.FileKey(), false)
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + j.FileKey()
	u.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(LinkLifetime.Seconds()))}, "x-id": {"GetObject"}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	link, _, err := l.signer.PresignHTTP(ctx, credentials, r, "UNSIGNED-PAYLOAD", "s3", l.region, time.Now())
	if err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	return link, nil
}
