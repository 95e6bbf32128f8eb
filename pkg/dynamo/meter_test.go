package dynamo

import (
	"context"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
)

// meter adds up the read units of queries, and records the size and the shard of each item.
type meter struct {
	*dynamodb.Client

	mu      sync.Mutex
	units   float64
	queries int
	items   map[string]metered // by id
}

type metered struct {
	bytes int
	shard string
}

func newMeter(t *testing.T) *meter {
	return &meter{Client: dynamolocal.Client(t), items: make(map[string]metered)}
}

func (m *meter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.Query(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
	m.queries++
	for _, item := range out.Items {
		m.items[textOf(item["id"])] = metered{itemSize(item), textOf(item["shard"])}
	}
	return out, nil
}
