package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// maxBatch is the largest number of keys of a BatchGetItem.
const maxBatch = 100

// The pause before keys that DynamoDB left out of a response are read again
// doubles each time and has jitter.
const (
	firstPause   = 25 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// BatchClient is the part of *dynamodb.Client that a UsageStore uses.
type BatchClient interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// UsageStore is a ratelimit.UsageStore over the table of a Store. It reads with
// eventual consistency, for half a read unit per key: charges of less than about
// a second ago may be missing. It is safe for concurrent use.
type UsageStore struct {
	client BatchClient
	table  string
}

// NewUsage returns a UsageStore over the table of that name.
func NewUsage(client BatchClient, table string) (*UsageStore, error) {
	if client == nil || table == "" {
		return nil, errors.New("ratelimit dynamostore: a client and a table name are required")
	}
	return &UsageStore{client: client, table: table}, nil
}

// Used implements ratelimit.UsageStore. It reads again what DynamoDB leaves out,
// until ctx is done. The keys must differ from each other.
func (s *UsageStore) Used(ctx context.Context, keys []ratelimit.Key) ([]map[string]int64, error) {
	wanted := make([]map[string]types.AttributeValue, len(keys))
	for i, key := range keys {
		wanted[i] = itemKey(key)
	}
	found := make(map[string]map[string]int64, len(keys)) // by partition key
	for pause := firstPause; len(wanted) > 0; {
		batch := wanted[:min(maxBatch, len(wanted))]
		wanted = wanted[len(batch):]
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{s.table: {Keys: batch}},
		})
		if err != nil {
			return nil, fmt.Errorf("read counters: %w", err)
		}
		for _, item := range out.Responses[s.table] {
			pk, ok := item["pk"].(*types.AttributeValueMemberS)
			if !ok {
				return nil, errors.New("read counters: an item has no partition key")
			}
			if found[pk.Value], err = readCounters(item); err != nil {
				return nil, err
			}
		}
		left := out.UnprocessedKeys[s.table].Keys
		if len(left) == 0 {
			continue
		}
		wanted = append(wanted, left...)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return nil, fmt.Errorf("read counters: DynamoDB left out %d keys: %w", len(wanted), ctx.Err())
		}
		pause = min(2*pause, longestPause)
	}
	used := make([]map[string]int64, len(keys))
	for i, key := range keys {
		used[i] = found[key.String()]
	}
	return used, nil
}
