package dynamostore_test

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
	"sluice/pkg/ratelimit/dynamostore"
	"sluice/pkg/ratelimit/storetest"
)

func TestUsageStore(t *testing.T) {
	storetest.RunUsage(t, func(t *testing.T) (ratelimit.Store, ratelimit.UsageStore) {
		client, table := dynamolocal.Client(t), dynamolocal.Table(t, "CountersTable")
		s, err := dynamostore.New(client, table)
		if err != nil {
			t.Fatal(err)
		}
		u, err := dynamostore.NewUsage(client, table)
		if err != nil {
			t.Fatal(err)
		}
		return s, u
	})
}

// miser is a BatchClient that returns items for at most atOnce keys of a call,
// each counting one request, and leaves out the others.
type miser struct {
	atOnce int
	calls  []int // keys of each
}

func (m *miser) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys := in.RequestItems["counters"].Keys
	m.calls = append(m.calls, len(keys))
	if len(keys) > 100 {
		return nil, errors.New("too many keys")
	}
	n := min(m.atOnce, len(keys))
	out := &dynamodb.BatchGetItemOutput{Responses: make(map[string][]map[string]types.AttributeValue)}
	for _, key := range keys[:n] {
		out.Responses["counters"] = append(out.Responses["counters"], map[string]types.AttributeValue{
			"pk": key["pk"], "r_not_found": &types.AttributeValueMemberN{Value: "1"}, "expires_at": &types.AttributeValueMemberN{Value: "9"},
		})
	}
	if n < len(keys) {
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{"counters": {Keys: keys[n:]}}
	}
	return out, nil
}

func minute(t *testing.T, m *miser) ([]ratelimit.WindowUsage, error) {
	t.Helper()
	u, err := dynamostore.NewUsage(m, "counters")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return ratelimit.Usage(ctx, u, "192.0.2.1", 1_800_000_000)
}

func TestUsageIsReadInFullBatchesUntilNothingIsLeftOut(t *testing.T) {
	for _, tt := range []struct {
		atOnce, calls int
	}{
		{100, 2}, // of 180 keys
		{99, 2},
		{60, 3},
		{37, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &miser{atOnce: tt.atOnce}
			usage, err := minute(t, m)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range usage {
				// Each of the three classes counts under the same name here.
				if w.Requests["not-found"] != 1 || len(w.Requests) != 1 {
					t.Errorf("%d keys at once: %+v", tt.atOnce, w)
				}
			}
			if len(m.calls) != tt.calls {
				t.Errorf("%d keys at once took the calls %v, want %d", tt.atOnce, m.calls, tt.calls)
			}
		})
	}
}

func TestUsageGivesUpAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &miser{}
		if _, err := minute(t, m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		// At least 200 ms lie between later calls: 400 ms less the jitter.
		if len(m.calls) < 10 || len(m.calls) > 30 {
			t.Errorf("%d calls in five seconds", len(m.calls))
		}
	})
}
