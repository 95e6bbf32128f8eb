package bootstrap

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// maxIdleConns is the number of idle connections that the HTTP client keeps
	// for each host. A list of events makes this many calls at once; the SDK
	// would keep ten connections, close the others after each list and open them
	// again.
	maxIdleConns = 16

	// idleConnTimeout is shorter than any server's. net/http compares it with the
	// wall clock before it uses an idle connection, so it also ends connections
	// that were idle while Lambda had frozen the instance.
	idleConnTimeout = 10 * time.Second
)

// LoadAWS returns the configuration that the AWS SDK finds in the environment,
// with an HTTP client for instances that Lambda freezes between invocations.
// docs/decisions/0007-warm-connection.md gives the reasons.
func LoadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(httpClient()),
		config.WithAPIOptions([]func(*middleware.Stack) error{addRepeatUnsent}))
}

func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		// The SDK's read timeout would hide TCP connections from closedByPeer.
		// Every call has a deadline in its context.
		WithReadTimeout(0).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = maxIdleConns
			t.IdleConnTimeout = idleConnTimeout
		})
}

func addRepeatUnsent(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("RepeatUnsent", repeatUnsent), middleware.After)
}

// repeatUnsent sends a request again if the idle connection that it was given
// had been closed by the server. It closes that connection before anything is
// written to it, which proves that the server has not received the request:
// this is safe for requests that must not be applied twice. Each repetition
// takes one connection out of the pool, so the last one opens a new connection.
func repeatUnsent(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	for {
		unsent := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) {
				unsent = info.WasIdle && closedByPeer(info.Conn)
				if unsent {
					info.Conn.Close() //nolint:errcheck // the connection is unusable either way
				}
			},
		})
		out, metadata, err := next.HandleDeserialize(traced, in)
		if err == nil || !unsent {
			return out, metadata, err
		}
		if r, ok := in.Request.(*smithyhttp.Request); !ok || r.RewindStream() != nil {
			return out, metadata, err
		}
	}
}
