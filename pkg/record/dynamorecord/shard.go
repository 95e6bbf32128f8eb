package dynamorecord

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/record"
)

// MaxShards is the largest number of Shards.
const MaxShards = 64

// Shards is the number of partition keys of an index in order of time over which the
// records of a workspace are spread, 1 to MaxShards. Each takes 1,000 write units a
// second, and each is read for a list. It may be raised at any time but never
// lowered: records in a shard that is no longer read are missing from lists.
type Shards int

// NewShards returns n shards, 1 if n is 0.
func NewShards(n int) (Shards, error) {
	n = cmp.Or(n, 1)
	if n < 1 || n > MaxShards {
		return 0, fmt.Errorf("%d shards, want 1 to %d", n, MaxShards)
	}
	return Shards(n), nil
}

// LoadShards reads the number of shards from the environment variable EVENT_SHARDS,
// whose default is 1. The error for another value names the variable.
func LoadShards(getenv func(string) string) (int, error) {
	const name = "EVENT_SHARDS"
	text := cmp.Or(getenv(name), "1")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxShards {
		return 0, fmt.Errorf("%s=%q must be a whole number from 1 to %d", name, text, MaxShards)
	}
	return n, nil
}

// Key returns the partition key of the shard of a record. The hash spreads all kinds
// of ids evenly, also those that count up.
func (s Shards) Key(workspace, id string) string {
	sum := sha256.Sum256([]byte(id))
	return shardKey(workspace, int(binary.BigEndian.Uint64(sum[:8])%uint64(s)))
}

// shardKey returns the partition key of the n-th shard of a workspace. It is unique,
// because a workspace's name has no '#'.
func shardKey(workspace string, n int) string { return workspace + "#" + strconv.Itoa(n) }

// Queries returns a query for each shard of a workspace in an index, between two
// positions. The index has the partition key shard (S). Its sort key (S) begins with
// the text of a record.Time; low and high may be "" for no bound. Queries returns none
// if the bounds cross.
func (s Shards) Queries(table, index, sortKey, workspace, low, high string, ascending bool) (ins []*dynamodb.QueryInput) {
	for n := range int(s) {
		in := Between(table, index, "shard", shardKey(workspace, n), sortKey, low, high, ascending)
		if in == nil {
			return nil
		}
		ins = append(ins, in)
	}
	return ins
}

// Between returns a query for the items of an index with the value key of its
// partition key, between two positions as in Queries; nil if the bounds cross, which
// DynamoDB rejects.
func Between(table, index, partitionKey, key, sortKey, low, high string, ascending bool) *dynamodb.QueryInput {
	// Times begin with a digit, so they are between these texts.
	low, high = cmp.Or(low, "0"), cmp.Or(high, ":")
	if low > high {
		return nil
	}
	return &dynamodb.QueryInput{
		TableName:                &table,
		IndexName:                &index,
		ScanIndexForward:         &ascending,
		KeyConditionExpression:   aws.String("#key = :key AND #sort BETWEEN :low AND :high"),
		ExpressionAttributeNames: map[string]string{"#key": partitionKey, "#sort": sortKey},
		ExpressionAttributeValues: Item{
			":key": Text(key), ":low": Text(low), ":high": Text(high),
		},
	}
}

// SyncQueries returns Queries for what q asks for.
func (s Shards) SyncQueries(table, index, sortKey, workspace string, q record.SyncQuery) []*dynamodb.QueryInput {
	low, high := q.Bounds()
	return s.Queries(table, index, sortKey, workspace, low, high, !q.Descending)
}

// RestorePosition adds the attributes that an index in order of record.SyncPosition
// need not project to an item, by the index's sort key: the time, which has the name
// at, and id.
func RestorePosition(item Item, sortKey, at string) {
	position := Read(item).Text(sortKey)
	time, id, _ := strings.Cut(position, "#")
	item[at], item["id"] = Text(time), Text(id)
}
