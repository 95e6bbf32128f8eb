package dynamorecord

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
)

// backfillWriters is the number of items that Backfill.Run updates at the same time.
const backfillWriters = 16

// BackfillClient is the part of *dynamodb.Client that a Backfill uses.
type BackfillClient interface {
	Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// Backfill adds the keys of an index to items that an earlier build wrote without these
// keys.
type Backfill struct {
	Client  BackfillClient
	Table   string
	Key     []string // names of the table's key attributes
	SortKey string   // name of the index's sort key; Run skips items that have this attribute
	Time    string   // name of an attribute that every write changes, except a write by Run
	Read    []string // names of further attributes that Keys needs

	// Keys returns the keys of the index for an item. The item has only the attributes
	// named in Key, Time and Read.
	Keys func(Item) (Item, error)
}

// Run scans the table once and returns the number of items that it updated. The scan is
// strongly consistent, because Run could not update an item if the scan returned an
// outdated Time. Run may be called while the table is in use. It must be called again if
// it was interrupted, or if an earlier build may have written items after the scan
// started. A further call does not change items that already have the keys. If the function
// progress is not nil, Run calls it after each page of the scan.
func (b Backfill) Run(ctx context.Context, progress func(updated int64)) (updated int64, err error) {
	in := &dynamodb.ScanInput{
		TableName:                &b.Table,
		ConsistentRead:           aws.Bool(true),
		FilterExpression:         aws.String("attribute_not_exists(#sort)"),
		ExpressionAttributeNames: map[string]string{"#sort": b.SortKey},
	}
	var projected []string
	for _, name := range slices.Concat(b.Key, []string{b.Time}, b.Read) {
		in.ExpressionAttributeNames["#"+name] = name
		projected = append(projected, "#"+name)
	}
	in.ProjectionExpression = aws.String(strings.Join(projected, ", "))
	for {
		out, err := b.Client.Scan(ctx, in)
		if err != nil {
			return updated, err
		}
		n, err := b.update(ctx, out.Items)
		updated += n
		if err != nil {
			return updated, err
		}
		if progress != nil {
			progress(updated)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return updated, nil
		}
	}
}

// update adds the keys to items and returns the number of updated items.
func (b Backfill) update(ctx context.Context, items []Item) (int64, error) {
	var updated atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(backfillWriters)
	for _, item := range items {
		group.Go(func() error {
			keys, err := b.Keys(item)
			if err != nil {
				return err
			}
			_, err = b.Client.UpdateItem(ctx, b.updateInput(item, keys))
			if _, changed := errors.AsType[*types.ConditionalCheckFailedException](err); changed {
				return nil // after the scan, a request deleted the item, or changed it and added the keys
			}
			if err == nil {
				updated.Add(1)
			}
			return err
		})
	}
	err := group.Wait()
	return updated.Load(), err
}

func (b Backfill) updateInput(item, keys Item) *dynamodb.UpdateItemInput {
	in := &dynamodb.UpdateItemInput{
		TableName:                 &b.Table,
		Key:                       make(Item),
		ConditionExpression:       aws.String("#time = :time AND attribute_not_exists(#sort)"),
		ExpressionAttributeNames:  map[string]string{"#time": b.Time, "#sort": b.SortKey},
		ExpressionAttributeValues: Item{":time": item[b.Time]},
	}
	for _, name := range b.Key {
		in.Key[name] = item[name]
	}
	var set []string
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		set = append(set, "#key_"+name+" = :key_"+name)
		in.ExpressionAttributeNames["#key_"+name], in.ExpressionAttributeValues[":key_"+name] = name, keys[name]
	}
	in.UpdateExpression = aws.String("SET " + strings.Join(set, ", "))
	return in
}
