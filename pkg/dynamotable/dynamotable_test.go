package dynamotable_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice"
	"sluice/internal/dynamolocal"
	"sluice/pkg/dynamotable"
	"sluice/pkg/template"
)

// jobs has all that a definition may have.
var jobs = template.Table{
	LogicalID:  "JobsTable",
	Hash:       "pk",
	Range:      "at",
	Attributes: map[string]string{"pk": "S", "at": "N", "hash": "B"},
	Indexes: []template.Index{
		{Name: "by_hash", Hash: "hash", Projection: "KEYS_ONLY"},
		{Name: "by_time", Hash: "at", Range: "pk", Projection: "ALL"},
	},
	TTLAttribute: "expires_at",
	StreamView:   "NEW_IMAGE",
}

// fresh is a table name that nothing else uses. The table is deleted with the test.
func fresh(t *testing.T, client *dynamodb.Client) string {
	name := "dynamotable-" + rand.Text()
	t.Cleanup(func() {
		client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}) // there may be none
	})
	return name
}

func TestCreate(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	for range 2 { // the second time it finds what the first made
		if err := dynamotable.Create(t.Context(), client, jobs, name); err != nil {
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

	// An item of all key attributes is found through both indexes.
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
			t.Errorf("%s: got %+v, %v, want one item of %d attributes", index, out, err, attributes)
		}
	}
}

func TestCreateEveryTableOfTheTemplate(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	parsed, err := template.Parse(sluice.Template)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range parsed.Tables {
		if err := dynamotable.Create(t.Context(), client, table, fresh(t, client)); err != nil {
			t.Error(err)
		}
	}
}

func TestCreateBySeveralAtOnce(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := dynamotable.Create(t.Context(), client, jobs, name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCreateRefusesAnotherDefinition(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	name := fresh(t, client)
	if err := dynamotable.Create(t.Context(), client, jobs, name); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*template.Table){
		"no range":   func(d *template.Table) { d.Range = "" },
		"other hash": func(d *template.Table) { d.Hash, d.Range = d.Range, d.Hash },
		"other type": func(d *template.Table) { d.Attributes = map[string]string{"pk": "S", "at": "S", "hash": "B"} },
		"one index less": func(d *template.Table) {
			d.Attributes = map[string]string{"pk": "S", "at": "N"}
			d.Indexes = d.Indexes[1:]
		},
		"other projection": func(d *template.Table) {
			d.Indexes = slices.Clone(d.Indexes)
			d.Indexes[1].Projection = "KEYS_ONLY"
		},
		"other expiry": func(d *template.Table) { d.TTLAttribute = "gone_at" },
		"no stream":    func(t *template.Table) { t.StreamView = "" },
	} {
		other := jobs
		change(&other)
		if err := dynamotable.Create(t.Context(), client, other, name); !errors.Is(err, dynamotable.ErrDiffers) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// slow is a client whose table is not active yet at first, and whose TTL another
// creator sets between the look and the update.
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
	if err := dynamotable.Create(t.Context(), client, jobs, fresh(t, client.Client)); err != nil {
		t.Fatal(err)
	}
	if client.looks != 3 {
		t.Errorf("looked %d times, want 3", client.looks)
	}
}

func TestCreateReportsFailure(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	unused := jobs
	unused.Indexes = nil // leaves an attribute that no key uses
	err := dynamotable.Create(t.Context(), client, unused, fresh(t, client))
	if err == nil || !strings.HasPrefix(err.Error(), "create table JobsTable as dynamotable-") {
		t.Errorf("got %v", err)
	}
}

func TestCreateStopsWithItsContext(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dynamotable.Create(ctx, client, jobs, fresh(t, client)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
