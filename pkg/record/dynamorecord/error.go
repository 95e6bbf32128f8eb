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

// Error wraps the error of a call of the SDK as record stores return it: of kind
// Unavailable, because the call may succeed later, unless DynamoDB says that the
// call itself is wrong (no such table, not allowed, not valid), which is a fault
// of the service.
func Error(op string, err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return record.UnavailableError(op, err)
}

// isRefusal reports whether err is a response of DynamoDB that a retry would get
// again. It uses the HTTP status, because only errors for which the SDK has a type
// say whose fault they are. Throttling has status 400 as well.
func isRefusal(err error) bool {
	var apiError smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &apiError) || !errors.As(err, &response) {
		return false
	}
	_, throttled := retry.DefaultThrottleErrorCodes[apiError.ErrorCode()]
	_, timedOut := retry.DefaultRetryableErrorCodes[apiError.ErrorCode()]
	status := response.HTTPStatusCode()
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError && !throttled && !timedOut
}
