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
	// maxIdleConns is how many idle connections are kept per host. A list of events makes up to
	// this many concurrent calls. With the SDK's default of 10, the client would close 6 of 16
	// connections after each list and open new ones for the next.
	maxIdleConns = 16

	// idleConnTimeout is shorter than the idle timeout of any server. net/http measures idle time
	// by the wall clock before it reuses a connection, so the time for which Lambda froze the
	// instance counts too.
	idleConnTimeout = 10 * time.Second
)

// LoadAWS returns the SDK's default configuration with an HTTP client for instances that
// Lambda freezes between invocations. See docs/decisions/0007-warm-connection.md.
func LoadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(httpClient()),
		config.WithAPIOptions([]func(*middleware.Stack) error{addRepeatUnsent}))
}

func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		// With a read timeout, the SDK would wrap connections and hide the TCP connection from
		// closedByPeer. Every call has a deadline in its context instead.
		WithReadTimeout(0).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = maxIdleConns
			t.IdleConnTimeout = idleConnTimeout
		})
}

func addRepeatUnsent(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("RepeatUnsent", repeatUnsent), middleware.After)
}

// repeatUnsent sends a request on another connection if the server has closed the idle one
// that net/http chose. It checks the connection before net/http writes to it. If the server has
// closed it, repeatUnsent closes it too, so the server cannot receive the request there. That makes
// it safe to repeat even a request that must be applied only once. Each repetition takes an idle
// connection from the pool, and when the pool is empty, net/http opens a new one.
func repeatUnsent(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	for {
		unsent := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) {
				unsent = info.WasIdle && closedByPeer(info.Conn)
				if unsent {
					info.Conn.Close() //nolint:errcheck // the connection is unusable in any case
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
