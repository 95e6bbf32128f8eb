package bootstrap

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// maxIdleConns is the number of idle connections that the HTTP client keeps for
// each host. A list of events makes this many calls at once; the SDK would keep
// ten connections, close the others after each list and open them again.
const maxIdleConns = 16

// LoadAWS returns the configuration that the AWS SDK finds in the environment,
// with the functions' own HTTP client.
func LoadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx, config.WithHTTPClient(httpClient()))
}

func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = maxIdleConns
	})
}
