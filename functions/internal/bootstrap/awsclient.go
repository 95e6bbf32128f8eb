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
	// maxIdleConns is the number of idle connections that the HTTP client keeps per
	// host. A request that lists events makes up to this many concurrent calls. With the
	// SDK's default of 10, the client would close up to 6 of the 16 connections after the
	// request and open new ones for the next request.
	maxIdleConns = 16

	// idleConnTimeout is shorter than any server's timeout. Before net/http reuses an idle
	// connection, it checks this timeout against the wall clock. So the timeout includes
	// the time in which Lambda has frozen the instance.
	idleConnTimeout = 10 * time.Second
)

// LoadAWS returns the AWS SDK's default configuration with an HTTP client for
// instances that Lambda freezes between invocations.
// docs/decisions/0007-warm-connection.md gives the reasons.
func LoadAWS(ctx context.Context) (aws.Config, error) {
	return config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(httpClient()),
		config.WithAPIOptions([]func(*middleware.Stack) error{addRepeatUnsent}))
}

func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		// With a read timeout, the SDK would wrap connections, and closedByPeer could not
		// access the TCP connection. Every call has a deadline in its context instead.
		WithReadTimeout(0).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = maxIdleConns
			t.IdleConnTimeout = idleConnTimeout
		})
}

func addRepeatUnsent(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("RepeatUnsent", repeatUnsent), middleware.After)
}

// repeatUnsent sends a request on another connection if the server has closed the idle
// connection that net/http chose for the request. It checks the idle connection before
// net/http writes to it. If the server has closed the connection, repeatUnsent closes it too,
// so the server does not receive the request on this connection. Therefore it is safe to
// repeat even a request that must be applied only once.
// Each repetition removes one idle connection from the pool. When the pool is empty,
// net/http opens a new connection.
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
