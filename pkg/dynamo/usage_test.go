package dynamo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/ratelimit"
	"sluice/pkg/storetest"
)

func TestUsage(t *testing.T) {
	storetest.Usage(t, func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore) {
		client, table := dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable")
		s, err := NewCounters(client, table)
		if err != nil {
			t.Fatal(err)
		}
		u, err := NewUsage(client, table)
		if err != nil {
			t.Fatal(err)
		}
		return s, u
	})
}

type silentQuery struct{}

func (silentQuery) Query(ctx context.Context, _ *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestUsageGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, err := NewUsage(silentQuery{}, "counters")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := ratelimit.Usage(ctx, u, "192.0.2.1", []ratelimit.Route{{Name: "list-entity", Class: ratelimit.Export}, {Name: "create-event", Class: ratelimit.Import}}, 1_800_000_000); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// brokenQuery is a client whose queries return one invalid item.
type brokenQuery map[string]types.AttributeValue

func (item brokenQuery) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{Items: []map[string]types.AttributeValue{item}}, nil
}

func TestAnInvalidItemOfCountersIsAnError(t *testing.T) {
	second := &types.AttributeValueMemberN{Value: "1800000000"}
	for name, item := range map[string]brokenQuery{
		"no sort key":          {},
		"a string sort key":    {"second": &types.AttributeValueMemberS{Value: "1800000000"}},
		"a string counter":     {"second": second, "imports": &types.AttributeValueMemberS{Value: "1"}},
		"a fractional counter": {"second": second, "imports": &types.AttributeValueMemberN{Value: "1.5"}},
	} {
		u, err := NewUsage(item, "counters")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Used(t.Context(), "192.0.2.1", []ratelimit.Route{{Name: "list-entity", Class: ratelimit.Export}}, 1_800_000_000); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
