package dynamo

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/record"
)

const maxShards = 64

// Shards sets the number of shards of a workspace in a time-ordered index. A shard has its own
// partition key and takes 1,000 write units a second. A list reads every shard.
//
// Every reader must read n shards before any writer writes to n, because two versions run at
// the same time during a deployment or a rollback. So there are two numbers: raise Read one
// deployment before Write, and never lower Read.
type Shards struct {
	Write int // number of shards to write to, from 1 (the default) to Read
	Read  int // number of shards that a list reads, from Write (the default) to maxShards
}

// checked returns s with its defaults set, or an error if a number is out of range.
func (s Shards) checked() (Shards, error) {
	s.Write = cmp.Or(s.Write, 1)
	s.Read = cmp.Or(s.Read, s.Write)
	if s.Write < 1 || s.Read < s.Write || s.Read > maxShards {
		return Shards{}, fmt.Errorf("dynamo: %d shards to write and %d to read, want 1 to %d, and no more to write than to read", s.Write, s.Read, maxShards)
	}
	return s, nil
}

// LoadShards reads EVENT_SHARDS (Write) and EVENT_READ_SHARDS (Read, by default the same). A
// Lambda function has only the variable that it needs. Errors name the variable.
func LoadShards(getenv func(string) string) (Shards, error) {
	var n [2]int
	for i, name := range []string{"EVENT_SHARDS", "EVENT_READ_SHARDS"} {
		text := getenv(name)
		if text == "" {
			continue
		}
		var err error
		if n[i], err = strconv.Atoi(text); err != nil || n[i] < 1 || n[i] > maxShards {
			return Shards{}, fmt.Errorf("%s=%q must be a whole number from 1 to %d", name, text, maxShards)
		}
	}
	s, err := Shards{n[0], n[1]}.checked()
	if err != nil {
		return Shards{}, fmt.Errorf("EVENT_READ_SHARDS=%d must not be less than EVENT_SHARDS=%d", n[1], n[0])
	}
	return s, nil
}

// key returns the partition key under which a record is written. A hash of the id spreads
// records evenly, even if ids are consecutive.
func (s Shards) key(workspace, id string) string {
	sum := sha256.Sum256([]byte(id))
	return shardKey(workspace, int(binary.BigEndian.Uint64(sum[:8])%uint64(s.Write)))
}

// shardKey is unambiguous, because a workspace's name cannot contain '#'.
func shardKey(workspace string, n int) string { return workspace + "#" + strconv.Itoa(n) }

// queries returns one query for each shard, for the items whose sort keys are between low and
// high, inclusive. The sort key (S) begins with the text of a record.Time, and the partition
// key of the index is the attribute shard (S). An empty string means no bound. If low is
// greater than high, the result is nil.
func (s Shards) queries(table, index, sortKey, workspace, low, high string, ascending bool) []*dynamodb.QueryInput {
	return s.each(workspace, func(shard string) *dynamodb.QueryInput {
		return between(table, index, "shard", shard, sortKey, low, high, ascending)
	})
}

// each returns the queries for all shards of a workspace, or nil if one of them is nil.
func (s Shards) each(workspace string, query func(shard string) *dynamodb.QueryInput) (ins []*dynamodb.QueryInput) {
	for n := range s.Read {
		in := query(shardKey(workspace, n))
		if in == nil {
			return nil
		}
		ins = append(ins, in)
	}
	return ins
}

// between returns a query for the items of one partition key with sort keys from low to high,
// or nil if low is greater than high, which DynamoDB would reject.
func between(table, index, partitionKey, key, sortKey, low, high string, ascending bool) *dynamodb.QueryInput {
	// The texts of times begin with a digit, so they sort after "0" and before ":".
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

// syncQueries returns queries for the changes that q requests.
func (s Shards) syncQueries(table, index, workspace string, q record.SyncQuery) ([]*dynamodb.QueryInput, error) {
	low, high, err := q.Bounds()
	return s.queries(table, index, "change", workspace, low, high, !q.Descending), err
}
