package template_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/template"
	"sluice/internal/test/dynamolocal"
)

// jobs is a table with a value in every field.
var jobs = template.Table{
	LogicalID:            "JobsTable",
	BillingMode:          "PAY_PER_REQUEST",
	AttributeDefinitions: []template.Attribute{{AttributeName: "pk", AttributeType: "S"}, {AttributeName: "at", AttributeType: "N"}, {AttributeName: "hash", AttributeType: "B"}},
	KeySchema:            []template.KeyElement{{AttributeName: "pk", KeyType: "HASH"}, {AttributeName: "at", KeyType: "RANGE"}},
	GlobalSecondaryIndexes: []template.Index{
		{IndexName: "by_time", KeySchema: []template.KeyElement{{AttributeName: "at", KeyType: "HASH"}, {AttributeName: "pk", KeyType: "RANGE"}}, Projection: template.Projection{ProjectionType: "ALL"}},
		{IndexName: "by_hash", KeySchema: []template.KeyElement{{AttributeName: "hash", KeyType: "HASH"}}, Projection: template.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []template.Literal{"name"}}},
	},
	TTL:                 template.TTL{AttributeName: "expires_at", Enabled: true},
	StreamSpecification: &template.Stream{StreamViewType: "NEW_IMAGE"},
}

func copyOfJobs() template.Table {
	table := jobs
	table.AttributeDefinitions, table.KeySchema, table.GlobalSecondaryIndexes = slices.Clone(jobs.AttributeDefinitions), slices.Clone(jobs.KeySchema), slices.Clone(jobs.GlobalSecondaryIndexes)
	stream := *jobs.StreamSpecification
	table.StreamSpecification = &stream
	for i := range table.GlobalSecondaryIndexes {
		table.GlobalSecondaryIndexes[i].KeySchema = slices.Clone(table.GlobalSecondaryIndexes[i].KeySchema)
	}
	return table
}

// fresh returns an unused table name, and deletes that table at the end of the test.
func fresh(t *testing.T, client *dynamodb.Client) string {
	name := "template-" + rand.Text()
	t.Cleanup(func() {
		client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}) //nolint:errcheck // fails if the test created no table
	})
	return name
}

func TestCreate(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	for range 2 { // the second call finds the table
		if err := template.CreateTable(t.Context(), client, jobs, name); err != nil {
			t.Fatal(err)
		}
	}

	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Table.TableStatus; got != types.TableStatusActive {
		t.Errorf("the table is %s", got)
	}
	if got := out.Table.BillingModeSummary; got == nil || got.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("the table is billed by %+v", got)
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(ttl.TimeToLiveDescription.AttributeName); got != "expires_at" {
		t.Errorf("items expire by %q", got)
	}

	// The item has the keys of both indexes, so both contain it.
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: map[string]types.AttributeValue{
		"pk":   &types.AttributeValueMemberS{Value: "a"},
		"at":   &types.AttributeValueMemberN{Value: "1"},
		"hash": &types.AttributeValueMemberB{Value: []byte("h")},
		"more": &types.AttributeValueMemberS{Value: "m"},
	}}); err != nil {
		t.Fatal(err)
	}
	for index, attributes := range map[string]int{"by_hash": 3, "by_time": 4} {
		out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name, IndexName: &index})
		if err != nil || len(out.Items) != 1 || len(out.Items[0]) != attributes {
			t.Errorf("%s: got %+v, %v, want one item with %d attributes", index, out, err, attributes)
		}
	}
}

func TestConcurrentCreatesSucceed(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := template.CreateTable(t.Context(), client, jobs, name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCreateRejectsATableWithAnotherDefinition(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	if err := template.CreateTable(t.Context(), client, jobs, name); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*template.Table){
		"no range": func(d *template.Table) { d.KeySchema = d.KeySchema[:1] },
		"other hash": func(d *template.Table) {
			d.KeySchema[0].AttributeName, d.KeySchema[1].AttributeName = d.KeySchema[1].AttributeName, d.KeySchema[0].AttributeName
		},
		"other type": func(d *template.Table) { d.AttributeDefinitions[1].AttributeType = "S" },
		"one index fewer": func(d *template.Table) {
			d.AttributeDefinitions, d.GlobalSecondaryIndexes = d.AttributeDefinitions[:2], d.GlobalSecondaryIndexes[:1]
		},
		"other index key":  func(d *template.Table) { d.GlobalSecondaryIndexes[1].KeySchema = d.GlobalSecondaryIndexes[0].KeySchema },
		"other projection": func(d *template.Table) { d.GlobalSecondaryIndexes[0].Projection.ProjectionType = "KEYS_ONLY" },
		"other attributes": func(d *template.Table) {
			d.GlobalSecondaryIndexes[1].Projection.NonKeyAttributes = []template.Literal{"other"}
		},
		"other expiry": func(d *template.Table) { d.TTL.AttributeName = "gone_at" },
		"no stream":    func(d *template.Table) { d.StreamSpecification = nil },
		"other stream": func(d *template.Table) { d.StreamSpecification.StreamViewType = "OLD_IMAGE" },
	} {
		other := copyOfJobs()
		change(&other)
		if err := template.CreateTable(t.Context(), client, other, name); !errors.Is(err, template.ErrDiffers) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// slow is a client that reports a table as active only at the third DescribeTable call. It
// sends every UpdateTimeToLive twice, as if another program had sent the first.
type slow struct {
	*dynamodb.Client
	looks int
}

func (c *slow) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := c.Client.DescribeTable(ctx, in, options...)
	if c.looks++; err == nil && c.looks < 3 {
		out.Table.TableStatus = types.TableStatusCreating
	}
	return out, err
}

func (c *slow) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	if _, err := c.Client.UpdateTimeToLive(ctx, in, options...); err != nil {
		return nil, err
	}
	return c.Client.UpdateTimeToLive(ctx, in, options...)
}

func TestCreateWaitsUntilActive(t *testing.T) {
	t.Parallel()
	client := &slow{Client: dynamolocal.Client(t)}
	if err := template.CreateTable(t.Context(), client, jobs, fresh(t, client.Client)); err != nil {
		t.Fatal(err)
	}
	if client.looks != 3 {
		t.Errorf("DescribeTable was called %d times, want 3", client.looks)
	}
}
