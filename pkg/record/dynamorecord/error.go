package dynamorecord

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"sluice/pkg/record"
)

// Error is what the error of a call of the SDK means to a client of the
// service: kind Unavailable, for the call may succeed later, unless DynamoDB
// says that the call itself is wrong (no such table, not allowed, not valid),
// which is a fault of the service.
func Error(op string, err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return record.UnavailableError(op, err)
}

// isRefusal reports whether err is an answer by DynamoDB that a repeat would
// get again. It goes by the status: DynamoDB's errors state their fault only
// where the SDK has a type for them. Throttling has a 400 like the rest.
func isRefusal(err error) bool {
	var answer smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &answer) || !errors.As(err, &response) {
		return false
	}
	_, throttled := retry.DefaultThrottleErrorCodes[answer.ErrorCode()]
	_, timedOut := retry.DefaultRetryableErrorCodes[answer.ErrorCode()]
	status := response.HTTPStatusCode()
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError && !throttled && !timedOut
}
