package dynamo

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

func putAll(t *testing.T, client *dynamodb.Client, table string, n int, item func(i int) attributeValues) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for first := 0; first < n; first += 25 {
		group.Go(func() error {
			var puts []types.WriteRequest
			for i := first; i < min(first+25, n); i++ {
				puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item(i)}})
			}
			_, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: puts}})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// pageMeter adds up the calls, read units and items of queries.
type pageMeter struct {
	*dynamodb.Client
	calls, items int
	units        float64
}

func (m *pageMeter) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.Query(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	m.calls++
	m.items += int(out.ScannedCount)
	m.units += aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)
	return out, nil
}

// The environment variable TOMBSTONES sets the number of tombstones. An export reads pages of
// 2,000 entities.
func TestAListByIDPassesTombstonesInPages(t *testing.T) {
	t.Parallel()
	const live = 40
	tombstones := count(t, "TOMBSTONES", 8_000)
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	at := record.TimeOf(noon).String()
	putAll(t, client, table, tombstones+live, func(i int) attributeValues {
		id := spread(i)
		item := attributeValues{
			"workspace": text("default"), "id": text(id), "type": text("person"), "created_at": text(at),
			"shard": text("default#0"), "change": text(at + "#" + id),
		}
		if i%(tombstones/live+1) == 0 {
			item["type_key"], item["attributes"] = text("default#person"), text(`{"name":"Ada Lovelace","note":"`+id+`"}`)
		} else {
			item["expires_at"] = number(noon.AddDate(1, 0, 0).Unix())
		}
		return item
	})
	m := &pageMeter{Client: client}
	s := openEntities(t, m, table)
	for _, limit := range []int{1, 50, 200, 2000} {
		var ids []string
		pages, empty := 0, 0
		var all, most pageMeter
		for q := (entity.Query{Limit: limit}); pages == 0 || q.Cursor != ""; pages++ {
			*m = pageMeter{Client: client}
			page, err := s.List(t.Context(), "default", q)
			if err != nil {
				t.Fatal(err)
			}
			all.calls, all.items, all.units = all.calls+m.calls, all.items+m.items, all.units+m.units
			most.calls, most.items, most.units = max(most.calls, m.calls), max(most.items, m.items), max(most.units, m.units)
			for _, e := range page.Records {
				ids = append(ids, e.ID)
			}
			if len(page.Records) == 0 {
				empty++
			}
			if page.Next != "" && page.Next <= q.Cursor {
				t.Fatalf("the page at %q leads to %q", q.Cursor, page.Next)
			}
			q.Cursor = page.Next
		}
		t.Logf("%d tombstones, %d entities by %d: %d pages, %d of them empty; %d calls, %d items, %.0f read units; at most %d calls, %d items and %.1f units a page",
			tombstones, live, limit, pages, empty, all.calls, all.items, all.units, most.calls, most.items, most.units)
		if slices.Sort(ids); len(slices.Compact(ids)) != live || len(ids) != live {
			t.Errorf("by %d: %d entities, want %d", limit, len(ids), live)
		}
		// Reading a megabyte takes 128 units, and each call rounds up. Even a page of one entity
		// reads a second entity, to learn whether the list continues.
		if most.units > 128+4 || all.items > 3*(tombstones+live) || limit > 1 && all.items > (tombstones+live)*11/10 {
			t.Errorf("by %d: %.1f units for a page, %d items in all", limit, most.units, all.items)
		}
	}
}

// unread is a client that reads only the first key of each call, and returns the other keys as
// unprocessed.
type unread struct{ *dynamodb.Client }

func (c unread) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for table, keys := range in.RequestItems {
		some := keys
		some.Keys = keys.Keys[:1]
		out, err := c.Client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: some}}, opts...)
		if keys.Keys = keys.Keys[1:]; err == nil && len(keys.Keys) > 0 {
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{table: keys}
		}
		return out, err
	}
	return nil, fmt.Errorf("no keys")
}

func TestKeysThatAreLeftUnreadAreReadAgain(t *testing.T) {
	t.Parallel()
	s := openEntities(t, unread{dynamolocal.Client(t)}, dynamolocal.Table(t, "EntitiesTable"))
	ids := []string{"a", "b", "c"}
	for _, id := range ids[:2] {
		if _, _, err := entity.Create(t.Context(), s, "default", entity.Draft{ID: id, Type: "t", Attributes: record.Attributes(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := s.GetEach(t.Context(), "default", ids); err != nil || len(found) != 2 {
		t.Errorf("%v, error %v", found, err)
	}
}
