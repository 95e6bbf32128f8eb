package dynamo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/record"
)

// clientOf returns a client that does not retry.
func clientOf(url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: &url,
		Region:       "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
		Retryer: aws.NopRetryer{},
	})
}

func put(ctx context.Context, client *dynamodb.Client) error {
	_, _, err := createItem(ctx, client, "records", "id", recordItem("a"), recordItem("a"), same, nil)
	return err
}

func TestErrorsOfDynamoDBAreClassified(t *testing.T) {
	t.Parallel()
	const dynamodbError, coralError = "com.amazonaws.dynamodb.v20120810#", "com.amazon.coral.service#"
	for _, tt := range []struct {
		status      int
		code        string // the __type in the body
		unavailable bool
	}{
		{400, coralError + "ValidationException", false},
		{400, coralError + "SerializationException", false},
		{400, coralError + "AccessDeniedException", false},
		{400, coralError + "UnrecognizedClientException", false},
		{400, coralError + "ExpiredTokenException", false},
		{400, dynamodbError + "ResourceNotFoundException", false},
		{400, dynamodbError + "ItemCollectionSizeLimitExceededException", false},
		{400, dynamodbError + "ProvisionedThroughputExceededException", true},
		{400, dynamodbError + "ThrottlingException", true},
		{400, coralError + "ThrottlingException", true},
		{400, dynamodbError + "RequestLimitExceeded", true},
		{400, dynamodbError + "LimitExceededException", true},
		{500, dynamodbError + "InternalServerError", true},
		{503, coralError + "ServiceUnavailableException", true},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-amz-json-1.0")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, `{"__type":"`+tt.code+`","message":"because"}`)
			}))
			t.Cleanup(server.Close)
			err := put(t.Context(), clientOf(server.URL))
			if (record.CodeOf(err) == record.Unavailable) != tt.unavailable {
				t.Errorf("unavailable %v, want %v: %v", !tt.unavailable, tt.unavailable, err)
			}
		})
	}
}

func TestAServerThatDoesNotRespondIsUnavailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server notices a disconnect only after it has read the body.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	client := clientOf(server.URL)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := put(ctx, client); record.CodeOf(err) != record.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := put(ctx, client); record.CodeOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	server.Close()
	if err := put(t.Context(), client); record.CodeOf(err) != record.Unavailable {
		t.Errorf("closed: %v", err)
	}
}

func TestAResponseOfAnotherServerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>captive portal</html>")
	}))
	t.Cleanup(server.Close)
	if err := put(t.Context(), clientOf(server.URL)); record.CodeOf(err) != record.Unavailable {
		t.Error(err)
	}
}
