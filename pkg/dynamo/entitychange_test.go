package dynamo

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type at struct{ now time.Time }

func (c *at) clock() entity.Clock { return entity.Clock{Now: func() time.Time { return c.now }} }

// Lists by id read tombstones and drop them. Lists of a type do not read them.
func TestItemsHaveTheDocumentedAttributes(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	l, c := &callLog{Client: client}, &at{noon}
	s, err := NewEntities(l, table, EntitiesConfig{Clock: c.clock()})
	if err != nil {
		t.Fatal(err)
	}
	item := func(want attributeValues) {
		t.Helper()
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: entityKey("default", "ada")})
		if token, ok := out.Item["token"].(*types.AttributeValueMemberB); !ok || len(token.Value) != 8 {
			t.Errorf("the token is %v", out.Item["token"])
		}
		delete(out.Item, "token")
		if err != nil || !reflect.DeepEqual(out.Item, want) {
			t.Errorf("the item is %v, error %v; want %v", out.Item, err, want)
		}
	}
	ada := entity.Draft{ID: "ada", Type: "account", Attributes: record.Attributes(`{"a":1.0}`)}
	if _, created, err := entity.Create(t.Context(), s, "default", ada); !created || err != nil {
		t.Fatal(created, err)
	}
	live := attributeValues{
		"workspace": text("default"), "id": text("ada"), "type": text("account"), "type_key": text("default#account"),
		"attributes": text(`{"a":1.0}`), "created_at": text("2026-01-02T12:00:00.000Z"),
		"revision": number(1), "shard": text("default#0"), "change": text("2026-01-02T12:00:00.000Z#ada"),
	}
	item(live)
	c.now = noon.Add(time.Hour)
	if err := entity.Delete(t.Context(), s, "default", "ada", nil); err != nil {
		t.Fatal(err)
	}
	deleted := attributeValues{
		"workspace": text("default"), "id": text("ada"), "type": text("account"), "created_at": text("2026-01-02T12:00:00.000Z"),
		"expires_at": number(c.now.Add(30 * 24 * time.Hour).Unix()),
		"revision":   number(2), "shard": text("default#0"), "change": text("2026-01-02T13:00:00.000Z#ada"),
	}
	item(deleted)
	l.take()
	for _, q := range []entity.Query{{Limit: 10}, {Limit: 10, Type: "account"}} {
		if page, err := s.List(t.Context(), "default", q); err != nil || len(page.Records) != 0 {
			t.Errorf("%+v, error %v", page, err)
		}
	}
	if got, want := l.take(), []string{"query, consistent false, read 1", "query, consistent false, read 0"}; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	c.now = noon.Add(2 * time.Hour)
	if _, _, err := s.Write(t.Context(), "default", entity.Erasure("ada", record.TimeOf(c.now), c.now)); err != nil {
		t.Fatal(err)
	}
	deleted["expires_at"], deleted["change"] = number(c.now.Add(30*24*time.Hour).Unix()), text("2026-01-02T14:00:00.000Z#ada")
	deleted["erased_at"], deleted["revision"] = text("2026-01-02T14:00:00.000Z"), number(3)
	item(deleted)
	c.now = noon.Add(3 * time.Hour)
	if _, _, err := entity.Create(t.Context(), s, "default", ada); err != nil {
		t.Fatal(err)
	}
	live["revision"] = number(4)
	live["created_at"], live["change"], live["erased_at"] = text("2026-01-02T15:00:00.000Z"), text("2026-01-02T15:00:00.000Z#ada"), deleted["erased_at"]
	item(live)
}

// The environment variables SYNC_ENTITIES and SYNC_CHANGES say how many entities there are and
// how many of them change. A page has 200 changes.
func TestReadUnitsOfChanges(t *testing.T) {
	total, changed := count(t, "SYNC_ENTITIES", 1_000), count(t, "SYNC_CHANGES", 250)
	for _, shards := range []int{1, 16} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			table := dynamolocal.Table(t, "EntitiesTable")
			m := newMeter(t)
			s, err := NewEntities(m, table, EntitiesConfig{Shards: Shards{Write: shards}, Clock: (&at{noon.Add(time.Hour)}).clock()})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, m.Client, table, s, Shards{Write: shards, Read: shards}, total, changed)
			began, pages, read := time.Now(), 0, 0
			for q := (record.SyncQuery{Since: record.TimeOf(noon.Add(time.Hour)), Limit: 200}); ; pages++ {
				page, err := s.Changes(t.Context(), "default", q)
				if err != nil {
					t.Fatal(err)
				}
				read += len(page.Records)
				if q.Cursor = page.Next; q.Cursor == "" {
					pages++
					break
				}
			}
			took, bytes := time.Since(began), 0
			for _, item := range m.items {
				bytes += item.bytes
			}
			// A page takes one query per shard, and DynamoDB rounds up the units of each query.
			own := math.Ceil(float64(bytes)/4096) / 2
			most := 1.25 * own
			if shards > 1 {
				most = 2 * max(own, float64(shards*pages)/2)
			}
			t.Logf("%d changes of %d entities, %d shards: %d pages in %s, %.1f read units; own units %.1f, at most %.1f", changed, total, shards, pages, took, m.units, own, most)
			if read != changed || m.units > most {
				t.Errorf("%d changes by %.1f read units, want %d by at most %.1f", read, m.units, changed, most)
			}
		})
	}
}

func count(t *testing.T, variable string, n int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// fill stores entities that were created at noon, and then updates some of them.
func fill(t *testing.T, client *dynamodb.Client, table string, s *Entities, shards Shards, total, changed int) {
	t.Helper()
	at := record.TimeOf(noon).String()
	putAll(t, client, table, total, func(i int) attributeValues {
		id := spread(i)
		return attributeValues{
			"workspace": text("default"), "id": text(id), "type": text("person"),
			"type_key": text("default#person"), "created_at": text(at),
			"attributes": text(fmt.Sprintf(`{"name":"Ada Lovelace","number":%d,"note":%q}`, i, id)),
			"shard":      text(shards.key("default", id)), "change": text(at + "#" + id),
		}
	})
	var group errgroup.Group
	group.SetLimit(8)
	for i := range changed {
		group.Go(func() error {
			_, err := entity.Update(t.Context(), s, "default", spread(i), record.Attributes(`{"changed":true}`), nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// spread maps consecutive numbers to ids in no particular order.
func spread(i int) string { return fmt.Sprintf("%032x", uint64(i)*0x9e3779b97f4a7c15) }
