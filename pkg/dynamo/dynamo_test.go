package dynamo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

func TestConstructorsRequireAClientAndATable(t *testing.T) {
	t.Parallel()
	some := &dynamodb.Client{}
	for name, errs := range map[string][2]error{
		"Counters": {ignore(NewCounters(nil, "t")), ignore(NewCounters(some, ""))},
		"Entities": {ignore(NewEntities(nil, "t", EntitiesConfig{})), ignore(NewEntities(some, "", EntitiesConfig{}))},
		"Events":   {ignore(NewEvents(nil, "t", EventsConfig{})), ignore(NewEvents(some, "", EventsConfig{}))},
		"Jobs":     {ignore(NewJobs(nil, reports, "t")), ignore(NewJobs(some, reports, ""))},
		"Keys":     {ignore(NewKeys(nil, "t")), ignore(NewKeys(some, ""))},
		"Limits":   {ignore(NewLimits(nil, "t")), ignore(NewLimits(some, ""))},
		"Usage":    {ignore(NewUsage(nil, "t")), ignore(NewUsage(some, ""))},
	} {
		if errs[0] == nil || errs[1] == nil {
			t.Errorf("%s: without a client %v, without a table %v", name, errs[0], errs[1])
		}
	}
	for _, shards := range []int{-1, maxShards + 1} {
		if _, err := NewEvents(some, "t", EventsConfig{Shards: Shards{Write: shards}}); err == nil {
			t.Errorf("no error for events in %d shards", shards)
		}
		if _, err := NewEntities(some, "t", EntitiesConfig{Shards: Shards{Write: shards}}); err == nil {
			t.Errorf("no error for entities in %d shards", shards)
		}
	}
}

func ignore[S any](_ S, err error) error { return err }

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
			if (record.KindOf(err) == record.Unavailable) != tt.unavailable {
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
	if err := put(ctx, client); record.KindOf(err) != record.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := put(ctx, client); record.KindOf(err) != record.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	server.Close()
	if err := put(t.Context(), client); record.KindOf(err) != record.Unavailable {
		t.Errorf("closed: %v", err)
	}
}

func TestAResponseOfAnotherServerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>captive portal</html>")
	}))
	t.Cleanup(server.Close)
	if err := put(t.Context(), clientOf(server.URL)); record.KindOf(err) != record.Unavailable {
		t.Error(err)
	}
}

func TestAReaderKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	whole := attributeValues{
		"text": text("a"), "empty": text(""),
		"time":   text("2026-01-02T15:04:05.000Z"),
		"number": &types.AttributeValueMemberN{Value: "1"}, "fraction": &types.AttributeValueMemberN{Value: "1.5"},
	}
	r := readItem(whole)
	if n, absent := r.optionalNumber("number"), r.optionalNumber("absent"); n != 1 || absent != 0 {
		t.Errorf("got %d and %d, want 1 and 0", n, absent)
	}
	got := []string{r.text("text"), r.text("empty"), r.optionalText("absent"), r.time("time").String()}
	if want := []string{"a", "", "", "2026-01-02T15:04:05.000Z"}; !reflect.DeepEqual(got, want) || r.err() != nil {
		t.Errorf("got %q, error %v; want %q", got, r.err(), want)
	}

	for _, tt := range []struct {
		read func(r *itemReader)
		want string
	}{
		{func(r *itemReader) { r.text("absent") }, "attribute absent is missing"},
		{func(r *itemReader) { r.time("absent") }, "attribute absent is missing"},
		{func(r *itemReader) { r.text("number") }, "attribute number is a *types.AttributeValueMemberN, not a string"},
		{func(r *itemReader) { r.optionalText("number") }, "attribute number is a *types.AttributeValueMemberN, not a string"},
		{func(r *itemReader) { r.optionalNumber("text") }, "attribute text is a *types.AttributeValueMemberS, not a number"},
		{func(r *itemReader) { r.optionalNumber("fraction") }, "attribute fraction is not a 64-bit integer"},
		{func(r *itemReader) { r.time("text") }, "attribute text is not an RFC 3339 date-time such as 2026-01-02T15:04:05Z"},
	} {
		r := readItem(whole)
		tt.read(r)
		r.text("absent too")
		if r.err() == nil || r.err().Error() != tt.want {
			t.Errorf("error %v, want %s", r.err(), tt.want)
		}
	}
}
