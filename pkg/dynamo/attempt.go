package dynamo

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sluice/pkg/record"
)

// attempts keeps the SDK from sending a write too long after its timestamp. An attempt can be
// late because the SDK retries failed writes, or because the process was suspended.
type attempts struct {
	now   func() time.Time
	until time.Time // no attempt is sent at this time or later
	lost  bool      // whether a failed attempt may still have been applied
}

func newAttempts(now func() time.Time, at time.Time) *attempts {
	// Round removes the monotonic clock reading, because that clock stops in a suspended machine.
	return &attempts{now: now, until: at.Round(0).Add(record.WriteTimeout)}
}

// watch is a call option that runs send for each attempt of a call, retries included.
func (a *attempts) watch(o *dynamodb.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Attempts", a.send), "Retry", middleware.After)
	})
}

// errLate must not be retryable.
var errLate = errors.New("the time for sending this write has passed")

func (a *attempts) send(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	if !a.now().Before(a.until) {
		return middleware.FinalizeOutput{}, middleware.Metadata{}, errLate
	}
	out, metadata, err := next.HandleFinalize(ctx, in)
	a.lost = a.lost || err != nil && !rejected(err) && notConnected(err) != aws.TrueTernary
	return out, metadata, err
}

// rejected reports whether DynamoDB responded with a 4xx status, so that the call changed nothing.
func rejected(err error) bool {
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && response.HTTPStatusCode() >= http.StatusBadRequest && response.HTTPStatusCode() < http.StatusInternalServerError
}
