package dynamo_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// roundTripper responds to queries.
type roundTripper func() http.Header

func (f roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: f(), Body: io.NopCloser(strings.NewReader(`{"Items":[],"Count":0,"ScannedCount":0}`))}, nil
}

// What is settled depends on the clock before the first query and on the Date of its response,
// whatever happens afterwards.
func TestSettledIsWhatTheFirstQueryCanHaveRead(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		dates []time.Duration // of the responses, after noon; none if there is no Date
		want  time.Duration
	}{
		"equal clocks":           {[]time.Duration{0, 0}, 0},
		"the clock is ahead":     {[]time.Duration{-time.Hour, time.Hour}, -time.Hour},
		"the clock is behind":    {[]time.Duration{time.Hour, time.Hour}, 0},
		"a slow page":            {[]time.Duration{time.Second, time.Minute}, 0},
		"responses have no Date": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, calls := noon, 0
			client := dynamodb.New(dynamodb.Options{
				Region: "none", BaseEndpoint: aws.String("http://none"), Credentials: aws.AnonymousCredentials{},
				HTTPClient: &http.Client{Transport: roundTripper(func() http.Header {
					now = now.Add(time.Minute) // as if each query took a minute
					header := make(http.Header)
					if tt.dates != nil {
						header.Set("Date", noon.Add(tt.dates[calls]).Format(http.TimeFormat))
					}
					calls++
					return header
				})},
			})
			s, err := dynamo.NewEntities(client, "entities", dynamo.EntitiesConfig{Shards: dynamo.Shards{Write: 2}, Clock: entity.Clock{Now: func() time.Time { return now }}})
			if err != nil {
				t.Fatal(err)
			}
			page, err := s.Changes(t.Context(), "default", record.SyncQuery{Limit: 10})
			if want := record.TimeOf(noon.Add(tt.want - record.SyncLag)); err != nil || page.Settled != want || calls != 2 {
				t.Errorf("settled is %s after %d calls, %v; want %s", page.Settled, calls, err, want)
			}
		})
	}
}
