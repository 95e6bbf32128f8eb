package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// maxBatch is how many keys one BatchGetItem takes.
const maxBatch = 100

// The wait before the keys that DynamoDB left out of an answer are asked for
// again: doubled each time, with jitter, until the context is done.
const (
	firstPause   = 25 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// BatchClient is the part of *dynamodb.Client that a UsageStore uses.
type BatchClient interface {
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
}

// UsageStore is a ratelimit.UsageStore over the table of a Store. It reads with
// eventual consistency, half a read unit a key: the last charges, usually of less
// than a second ago, may be missing. It is safe for concurrent use.
type UsageStore struct {
	client BatchClient
	table  string
}

// NewUsage makes a UsageStore over the table of that name.
func NewUsage(client BatchClient, table string) (*UsageStore, error) {
	if client == nil || table == "" {
		return nil, errors.New("ratelimit dynamostore: a client and a table name are required")
	}
	return &UsageStore{client: client, table: table}, nil
}

// Used implements ratelimit.UsageStore. The keys must differ from each other.
func (s *UsageStore) Used(ctx context.Context, keys []ratelimit.Key) ([]map[string]int64, error) {
	used := make([]map[string]int64, len(keys))
	place := make(map[string]int, len(keys))
	var wanted []map[string]types.AttributeValue
	for i, key := range keys {
		place[key.String()] = i
		wanted = append(wanted, itemKey(key))
	}
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
			pk, _ := item["pk"].(*types.AttributeValueMemberS)
			if pk == nil {
				return nil, errors.New("read counters: an item without its key")
			}
			i, ok := place[pk.Value]
			if !ok {
				return nil, fmt.Errorf("read counters: the item %q was not asked for", pk.Value)
			}
			if used[i], err = numbers(item); err != nil {
				return nil, fmt.Errorf("read counters: %w", err)
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
			return nil, fmt.Errorf("read counters: %d keys were left out: %w", len(wanted), ctx.Err())
		}
		pause = min(2*pause, longestPause)
	}
	return used, nil
}

// itemKey is the primary key of a ratelimit.Key's item.
func itemKey(key ratelimit.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key.String()}}
}

// numbers are the counters of an item.
func numbers(item map[string]types.AttributeValue) (map[string]int64, error) {
	counters := make(map[string]int64, len(item))
	for name, v := range item {
		n, ok := v.(*types.AttributeValueMemberN)
		if !ok || name == "expires_at" {
			continue
		}
		var err error
		if counters[name], err = strconv.ParseInt(n.Value, 10, 64); err != nil {
			return nil, fmt.Errorf("counter %s: %w", name, err)
		}
	}
	return counters, nil
}
