// Package store times the stores on DynamoDB Local, and counts their calls and the units consumed.
package store

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

const workspace = "default"

const attributes = `"plan":"team","seats":12,"amount":149.90,"currency":"EUR","source":{"campaign":"spring","medium":"email"},"tags":["renewal","annual"]`

// BenchmarkCreate compares creates, with and without indexed attributes, to a PutItem of an item
// of the same size in the same table.
func BenchmarkCreate(b *testing.B) {
	b.Chdir("../..")
	table := dynamolocal.Table(b, "EntitiesTable")
	bare := func(client *dynamodb.Client) call {
		return func(ctx context.Context, n int) error {
			id := fmt.Sprintf("bare-%d", n)
			_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
				"workspace": text(workspace), "id": text(id), "type": text("person"), "type_key": text(workspace + "#person"),
				"shard": text(workspace + "#0"), "change": text("2026-01-02T15:04:05.250Z " + id),
				"attributes": text(string(person(n))), "created_at": text("2026-01-02T15:04:05.250Z"),
			}})
			return err
		}
	}
	compare(b, "impl=bare", bare)
	for _, indexes := range []int{0, index.Places} {
		compare(b, fmt.Sprintf("impl=sluice-%d-indexes", indexes), func(client *dynamodb.Client) call {
			s := entities(b, client, table, declarations(indexes))
			return func(ctx context.Context, n int) error {
				return create(ctx, s, fmt.Sprintf("sluice-%d-%d", indexes, n), n)
			}
		})
	}
}

// BenchmarkFind compares a lookup by an indexed attribute to a read by id, among 2,000
// entities.
func BenchmarkFind(b *testing.B) {
	b.Chdir("../..")
	const stored = 2000
	table, indexed := dynamolocal.Table(b, "EntitiesTable"), declarations(1)
	seed(b, entities(b, dynamolocal.Client(b), table, indexed), stored)
	compare(b, "impl=by-id", func(client *dynamodb.Client) call {
		s := entities(b, client, table, indexed)
		return func(ctx context.Context, n int) error {
			_, err := s.Get(ctx, workspace, id(n%stored))
			return err
		}
	})
	compare(b, "impl=by-attribute", func(client *dynamodb.Client) call {
		s := entities(b, client, table, indexed)
		byEmail := indexed.Load().Of(workspace, "person")[0]
		return func(ctx context.Context, n int) error {
			q := index.Query{Declaration: byEmail, Limit: 50}
			if err := q.Where(index.Condition{Attribute: "email", Value: email(n % stored)}); err != nil {
				return err
			}
			page, err := s.Find(ctx, workspace, q)
			if err == nil && len(page.Records) != 1 {
				err = fmt.Errorf("found %d entities", len(page.Records))
			}
			return err
		}
	})
}

// BenchmarkList lists 50 entities, with and without tombstones before them. A list by id has to
// read the tombstones, and a list by type does not.
func BenchmarkList(b *testing.B) {
	b.Chdir("../..")
	const page = 50
	for _, tombstones := range []int{0, 1000} {
		table := dynamolocal.Table(b, "EntitiesTable")
		s := entities(b, dynamolocal.Client(b), table, new(index.Current))
		seed(b, s, tombstones+page)
		each(b, tombstones, func(ctx context.Context, n int) error {
			_, _, err := s.Write(ctx, workspace, entity.Deletion(id(n), nil))
			return err
		})
		for _, typ := range []string{"", "person"} {
			by := map[bool]string{true: "id", false: "type"}[typ == ""]
			compare(b, fmt.Sprintf("by=%s/tombstones=%d", by, tombstones), func(client *dynamodb.Client) call {
				s := entities(b, client, table, new(index.Current))
				return func(ctx context.Context, _ int) error {
					got, err := s.List(ctx, workspace, entity.Query{Type: typ, Limit: page})
					if err == nil && len(got.Records) != page {
						err = fmt.Errorf("listed %d entities", len(got.Records))
					}
					return err
				}
			})
		}
	}
}

// call makes the nth call to a store.
type call func(ctx context.Context, n int) error

// compare times calls. To report calls/op and units/op, it makes one more call, untimed and
// through a proxy.
func compare(b *testing.B, name string, prepare func(*dynamodb.Client) call) {
	b.Run(name, func(b *testing.B) {
		n := 0
		do := prepare(dynamolocal.Client(b))
		for ; b.Loop(); n++ {
			if err := do(b.Context(), n); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		proxy := dynamoproxy.Start(b, dynamolocal.Endpoint(b))
		metered := dynamolocal.Client(b, func(o *dynamodb.Options) { o.BaseEndpoint = &proxy.URL })
		if err := prepare(metered)(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		var calls, units float64
		for _, usage := range proxy.Usage() {
			calls += float64(usage.Calls)
			units += usage.Units
		}
		b.ReportMetric(calls, "calls/op")
		b.ReportMetric(units, "units/op")
	})
}

func seed(b *testing.B, s *dynamo.Entities, n int) {
	b.Helper()
	each(b, n, func(ctx context.Context, n int) error { return create(ctx, s, id(n), n) })
}

func each(b *testing.B, n int, do call) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

func entities(b *testing.B, client *dynamodb.Client, table string, indexed *index.Current) *dynamo.Entities {
	b.Helper()
	s, err := dynamo.NewEntities(client, table, dynamo.EntitiesConfig{Indexes: indexed})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// declarations returns n indexed attributes of the type person. The first one is email.
func declarations(n int) *index.Current {
	var all []index.Declaration
	for i, name := range []string{"email", "phone", "company", "city"}[:n] {
		all = append(all, index.Declaration{Workspace: workspace, Type: "person", Fields: index.Fields{{Name: name, ValueType: index.Text}}, Place: i + 1, State: index.Ready})
	}
	current := new(index.Current)
	current.Store(index.NewSet(all))
	return current
}

func create(ctx context.Context, s *dynamo.Entities, id string, n int) error {
	_, written, err := s.Write(ctx, workspace, entity.Creation(entity.Entity{ID: id, Type: "person", Attributes: person(n)}))
	if err == nil && !written {
		err = fmt.Errorf("%s exists", id)
	}
	return err
}

func id(n int) string { return fmt.Sprintf("person-%06d", n) }

func email(n int) string { return "person" + strconv.Itoa(n) + "@example.com" }

func person(n int) record.Attributes {
	return record.Attributes(fmt.Sprintf(`{"email":%q,"phone":"+49 30 %d","company":"company %d","city":"city %d",%s}`, email(n), n, n%100, n%10, attributes))
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
