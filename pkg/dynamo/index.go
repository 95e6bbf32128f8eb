package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/index"
)

// IndexesPartition is the partition key under which EntitiesTable holds the declarations of
// indexed attributes. No workspace can have that name, because names cannot contain '#'.
const IndexesPartition = "#indexes"

// IndexesClient is the part of *dynamodb.Client that Indexes uses. The Lambda functions call
// only Query.
type IndexesClient interface {
	querier
	putter
	deleter
	transactor
}

// Indexes is an index.Store in the table of entities. It is safe for concurrent use. An item
// has the partition key IndexesPartition, the sort key Declaration.ID, and the attributes
// declaration (S, JSON) and revision (N, for conditional writes).
type Indexes struct {
	client IndexesClient
	table  string
}

// NewIndexes fails if client is nil or the table name is empty.
func NewIndexes(client IndexesClient, table string) (*Indexes, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Indexes{client, table}, nil
}

// List implements index.Store. It takes one read unit per 4 KB, at least one.
func (s *Indexes) List(ctx context.Context) (all []index.Declaration, err error) {
	pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
		TableName: &s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("workspace = :partition"),
		ExpressionAttributeValues: attributeValues{":partition": text(IndexesPartition)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, storeError("list indexes", err)
		}
		some, err := each(page.Items, declarationFromItem)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, index.Declaration.Compare)
	return all, nil
}

func declarationFromItem(item attributeValues) (d index.Declaration, err error) {
	r := readItem(item)
	text := r.text("declaration")
	if err := r.err(); err != nil {
		return d, err
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("read declaration: %w", err)
	}
	return d, nil
}

// Add implements index.Store with one transaction.
func (s *Indexes) Add(ctx context.Context, d index.Declaration, others []index.Declaration) (index.Declaration, error) {
	d.Revision = d.NextRevision()
	item, err := itemOfDeclaration(d)
	if err != nil {
		return d, err
	}
	changes := []types.TransactWriteItem{{Put: &types.Put{TableName: &s.table, Item: item, ConditionExpression: aws.String(isNew)}}}
	for place := range index.Places {
		other := index.Declaration{Workspace: d.Workspace, Type: d.Type, Place: place + 1}
		if i := slices.IndexFunc(others, func(o index.Declaration) bool { return o.Place == other.Place }); i >= 0 {
			other = others[i]
		}
		if other.Place == d.Place {
			continue
		}
		condition, values := revisionIs(other)
		changes = append(changes, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &s.table, Key: declarationKey(other), ConditionExpression: &condition, ExpressionAttributeValues: values,
		}})
	}
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: changes})
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && hasCode(cancelled.CancellationReasons, "ConditionalCheckFailed", "TransactionConflict") {
		return d, index.ErrChanged
	}
	if err != nil {
		return d, storeError("add index", err)
	}
	return d, nil
}

// Put implements index.Store with a conditional PutItem.
func (s *Indexes) Put(ctx context.Context, d index.Declaration) (index.Declaration, error) {
	condition, values := revisionIs(d)
	d.Revision = d.NextRevision()
	item, err := itemOfDeclaration(d)
	if err != nil {
		return d, err
	}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: item, ConditionExpression: &condition, ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, repeatConflicts)
	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		// The SDK retries a put whose response was lost, so the item may be from the first try.
		if stored, err := declarationFromItem(refused.Item); err == nil && stored == d {
			return d, nil
		}
		return d, index.ErrChanged
	}
	if err != nil {
		return d, storeError("put index", err)
	}
	return d, nil
}

// Remove implements index.Store with a conditional DeleteItem.
func (s *Indexes) Remove(ctx context.Context, d index.Declaration) error {
	condition, values := revisionIs(d)
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: declarationKey(d), ConditionExpression: aws.String(isNew + " OR " + condition), ExpressionAttributeValues: values,
	}, repeatConflicts)
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return index.ErrChanged
	}
	if err != nil {
		return storeError("remove index", err)
	}
	return nil
}

// repeatConflicts makes the SDK also retry writes that conflict with another process's Add.
func repeatConflicts(o *dynamodb.Options) {
	o.Retryer = retry.AddWithErrorCodes(o.Retryer, (*types.TransactionConflictException)(nil).ErrorCode())
}

func itemOfDeclaration(d index.Declaration) (attributeValues, error) {
	declaration, err := json.Marshal(d)
	item := declarationKey(d)
	item["declaration"], item["revision"] = text(string(declaration)), number(d.Revision)
	return item, err
}

func declarationKey(d index.Declaration) attributeValues {
	return attributeValues{"workspace": text(IndexesPartition), "id": text(d.ID())}
}

const isNew = "attribute_not_exists(id)"

// revisionIs returns the condition that the stored revision is d's. If d's revision is 0, the
// condition is that nothing is stored.
func revisionIs(d index.Declaration) (condition string, values attributeValues) {
	if d.Revision == 0 {
		return isNew, nil
	}
	return "revision = :revision", attributeValues{":revision": number(d.Revision)}
}
