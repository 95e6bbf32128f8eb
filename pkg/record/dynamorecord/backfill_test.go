package dynamorecord_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/record/dynamorecord"
)

// scans is a BackfillClient of a table with two pages of one item each. It counts its
// calls.
type scans struct {
	consistent, pages, updates int
}

func (c *scans) Scan(_ context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	c.pages++
	if aws.ToBool(in.ConsistentRead) {
		c.consistent++
	}
	if in.ExclusiveStartKey == nil {
		return &dynamodb.ScanOutput{Items: []dynamorecord.Item{item("a")}, LastEvaluatedKey: item("a")}, nil
	}
	return &dynamodb.ScanOutput{Items: []dynamorecord.Item{item("b")}}, nil
}

func (c *scans) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.updates++
	return &dynamodb.UpdateItemOutput{}, nil
}

func TestABackfillReadsConsistently(t *testing.T) {
	t.Parallel()
	client := &scans{}
	b := dynamorecord.Backfill{Client: client, Table: "t", Key: []string{"id"}, SortKey: "change", Time: "updated_at", Keys: same}
	if n, err := b.Run(t.Context(), nil); n != 2 || err != nil {
		t.Errorf("%d were updated, error %v", n, err)
	}
	if want := (scans{consistent: 2, pages: 2, updates: 2}); *client != want {
		t.Errorf("got %+v, want %+v", *client, want)
	}
}
