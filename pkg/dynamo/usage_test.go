package dynamo

import (
	"context"
	"errors"
	"fmt"
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

type silentQuery struct{ UsageClient }

func (silentQuery) Query(ctx context.Context, _ *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// One call has 100 items at most, which are those of 50 keys, and may leave some unread.
func TestSumsOfManyKeys(t *testing.T) {
	t.Parallel()
	const keys = 120
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable")
	s, err := NewCounters(client, table)
	if err != nil {
		t.Fatal(err)
	}
	identities := []string{"key:aaaaaaaaaaaa", "key:aaaaaaaaaaaa"}
	w := ratelimit.WindowAt(time.Now())
	for n := range int64(keys) {
		identity := ratelimit.KeyIdentity(fmt.Sprintf("%012d", n))
		identities = append(identities, identity)
		cost := ratelimit.Cost{Rule: ratelimit.Rule{Name: "imports", Counter: "imports", Period: ratelimit.Month, Limit: ratelimit.NoLimit}, Amount: n + 1}
		if _, err := s.Charge(t.Context(), ratelimit.Key{Identity: identity, Group: "import", Window: w}, []ratelimit.Cost{cost}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []UsageClient{client, unread{client}} {
		u, err := NewUsage(c, table)
		if err != nil {
			t.Fatal(err)
		}
		ofAll := identities
		if _, slow := c.(unread); slow { // it reads one item a call
			ofAll = identities[:6]
		}
		got, err := u.Sums(t.Context(), ofAll, ratelimit.Month, w)
		if err != nil || len(got) != len(ofAll)-2 {
			t.Fatalf("%d of %d keys, error %v", len(got), len(ofAll)-2, err)
		}
		for n, identity := range ofAll[2:] {
			if got[identity].Imports != int64(n)+1 || got[identity].Records != 0 {
				t.Errorf("%s: %+v", identity, got[identity])
			}
		}
	}
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
type brokenQuery struct {
	UsageClient
	item attributeValues
}

func (c brokenQuery) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{Items: []map[string]types.AttributeValue{c.item}}, nil
}

func TestAnInvalidItemOfCountersIsAnError(t *testing.T) {
	second := &types.AttributeValueMemberN{Value: "1800000000"}
	for name, item := range map[string]attributeValues{
		"no sort key":          {},
		"a string sort key":    {"second": &types.AttributeValueMemberS{Value: "1800000000"}},
		"a string counter":     {"second": second, "imports": &types.AttributeValueMemberS{Value: "1"}},
		"a fractional counter": {"second": second, "imports": &types.AttributeValueMemberN{Value: "1.5"}},
	} {
		u, err := NewUsage(brokenQuery{item: item}, "counters")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Used(t.Context(), "192.0.2.1", []ratelimit.Route{{Name: "list-entity", Class: ratelimit.Export}}, 1_800_000_000); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
