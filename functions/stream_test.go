package functions_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/templatetest"
)

// stream reads a table's changes as Lambda does for a function: it starts at the first change,
// skips changes that do not match the filter in template.yaml, and puts one change into each event.
type stream struct {
	client   *dynamodbstreams.Client
	arn      *string
	patterns []any
	seen     map[string]bool // ids of the changes read so far
	waiting  []any           // events that have not been returned yet
}

func openStream(t testing.TB, engine *dynamolocal.Engine, table, function string) *stream {
	t.Helper()
	described, err := engine.Client().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{
		client: dynamodbstreams.New(dynamodbstreams.Options{
			Region: dynamolocal.Region, BaseEndpoint: &engine.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		}),
		arn: described.Table.LatestStreamArn, seen: make(map[string]bool),
	}
	for _, f := range templatetest.Functions(t) {
		if f.Name != function {
			continue
		}
		for _, text := range f.Streams[0].Patterns {
			var pattern any
			if err := json.Unmarshal([]byte(text), &pattern); err != nil {
				t.Fatal(err)
			}
			s.patterns = append(s.patterns, pattern)
		}
	}
	if len(s.patterns) == 0 {
		t.Fatalf("the template has no filter for %s", function)
	}
	return s
}

// poll starts at the beginning of the stream each time, because an iterator expires after a
// few minutes.
func (s *stream) poll(t testing.TB) {
	t.Helper()
	stream, err := s.client.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: s.arn})
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range stream.StreamDescription.Shards {
		start, err := s.client.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
			StreamArn: s.arn, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		for iterator := start.ShardIterator; iterator != nil; {
			out, err := s.client.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: iterator})
			if err != nil {
				t.Fatal(err)
			}
			if iterator = out.NextShardIterator; len(out.Records) == 0 {
				break
			}
			for _, r := range out.Records {
				s.take(t, r)
			}
		}
	}
}

// take adds a change to s.waiting if it is new and matches the filter.
func (s *stream) take(t testing.TB, r streamtypes.Record) {
	t.Helper()
	if s.seen[*r.EventID] {
		return
	}
	s.seen[*r.EventID] = true
	change := map[string]any{
		"eventID": r.EventID, "eventName": string(r.EventName), "eventSource": "aws:dynamodb", "awsRegion": r.AwsRegion,
		"dynamodb": map[string]any{"Keys": image(t, r.Dynamodb.Keys), "NewImage": image(t, r.Dynamodb.NewImage)},
	}
	if slices.ContainsFunc(s.patterns, func(p any) bool { return matches(p, change) }) {
		s.waiting = append(s.waiting, change)
	}
}

// next waits for a change, removes it from s.waiting and returns it as an event.
func (s *stream) next(t testing.TB) any {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for s.poll(t); len(s.waiting) == 0; s.poll(t) {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal("the stream has no further change")
		}
	}
	change := s.waiting[0]
	s.waiting = s.waiting[1:]
	return map[string]any{"Records": []any{change}}
}

// image converts an item or a key to its JSON form in an event.
func image(t testing.TB, item map[string]streamtypes.AttributeValue) map[string]any {
	t.Helper()
	image := make(map[string]any)
	for name, value := range item {
		switch v := value.(type) {
		case *streamtypes.AttributeValueMemberS:
			image[name] = map[string]any{"S": v.Value}
		case *streamtypes.AttributeValueMemberN:
			image[name] = map[string]any{"N": v.Value}
		case *streamtypes.AttributeValueMemberSS:
			image[name] = map[string]any{"SS": v.Value}
		default:
			t.Fatalf("attribute %s is a %T", name, v)
		}
	}
	return image
}

// matches applies a filter as Lambda does: a pattern is an object whose leaves are lists of
// allowed values.
func matches(pattern, value any) bool {
	switch p := pattern.(type) {
	case map[string]any:
		members, ok := value.(map[string]any)
		for name, below := range p {
			ok = ok && matches(below, members[name])
		}
		return ok
	case []any:
		return slices.Contains(p, value)
	}
	return false
}
