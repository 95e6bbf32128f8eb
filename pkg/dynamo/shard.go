package dynamo

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

// MaxShards is the maximum number of shards.
const MaxShards = 64

// Shards is a number of partition keys, 1 to MaxShards. An index in order of time spreads
// the records of a workspace over these keys. Each shard accepts 1,000 write units per
// second, and a list reads every shard. The number may be raised at any time but must
// never be lowered, because lists would not read the records in the removed shards.
type Shards int

// newShards returns n shards. It returns an error if n is out of range.
func newShards(n int) (Shards, error) {
	if n < 1 || n > MaxShards {
		return 0, fmt.Errorf("%d shards, want 1 to %d", n, MaxShards)
	}
	return Shards(n), nil
}

// LoadShards returns the number of shards that the environment variable EVENT_SHARDS
// sets. The default is 1. The error for an invalid value names the variable.
func LoadShards(getenv func(string) string) (shards Shards, err error) {
	const name = "EVENT_SHARDS"
	text := cmp.Or(getenv(name), "1")
	n, err := strconv.Atoi(text)
	if err == nil {
		shards, err = newShards(n)
	}
	if err != nil {
		return 0, fmt.Errorf("%s=%q must be a whole number from 1 to %d", name, text, MaxShards)
	}
	return shards, nil
}

// Key returns the partition key of the shard of a record. A hash of the id spreads the
// records evenly, even if the ids are consecutive.
func (s Shards) Key(workspace, id string) string {
	sum := sha256.Sum256([]byte(id))
	return shardKey(workspace, int(binary.BigEndian.Uint64(sum[:8])%uint64(s)))
}

// shardKey returns the partition key of the n-th shard of a workspace. It is unique
// because the name of a workspace cannot contain '#'.
func shardKey(workspace string, n int) string { return workspace + "#" + strconv.Itoa(n) }

// Queries returns one query for each shard of a workspace in an index, for the items
// whose sort keys are between low and high, inclusive. The partition key of the index is
// the attribute shard (S). The sort key (S) begins with the text of a record.Time. If low or
// high is empty, there is no such bound. Queries returns nil if low is greater than high.
func (s Shards) Queries(table, index, sortKey, workspace, low, high string, ascending bool) (ins []*dynamodb.QueryInput) {
	for n := range int(s) {
		in := between(table, index, "shard", shardKey(workspace, n), sortKey, low, high, ascending)
		if in == nil {
			return nil
		}
		ins = append(ins, in)
	}
	return ins
}

// between returns a query for items of an index. The parameter key is the value of their
// partition key. Their sort keys are between low and high, as in Queries. Between returns
// nil if low is greater than high, because DynamoDB rejects such a query.
func between(table, index, partitionKey, key, sortKey, low, high string, ascending bool) *dynamodb.QueryInput {
	// Times begin with a digit, so all of them sort after "0" and before ":".
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
		ExpressionAttributeValues: attributeValues{
			":key": text(key), ":low": text(low), ":high": text(high),
		},
	}
}

// SyncQueries returns the result of Queries for the bounds and the direction of q.
func (s Shards) SyncQueries(table, index, sortKey, workspace string, q record.SyncQuery) []*dynamodb.QueryInput {
	low, high := q.Bounds()
	return s.Queries(table, index, sortKey, workspace, low, high, !q.Descending)
}

// restorePosition sets two attributes of an item: the id and the time. The parameter at
// is the name of the attribute for the time. Both values are parts of the attribute
// sortKey, which contains the text of a record.Position. An index with this sort key
// therefore does not have to project them.
func restorePosition(item attributeValues, sortKey, at string) {
	position := readItem(item).text(sortKey)
	time, id, _ := strings.Cut(position, "#")
	item[at], item["id"] = text(time), text(id)
}
