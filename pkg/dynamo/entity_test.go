package dynamo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/entity"
	"sluice/pkg/record"
	"sluice/pkg/storetest"
)

func openEntities(t *testing.T, client EntitiesClient, table string) *Entities {
	t.Helper()
	s, err := NewEntities(client, table, EntitiesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entitiesIn(t *testing.T, shards int) func(entity.Clock) (entity.Store, error) {
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	return func(clock entity.Clock) (entity.Store, error) {
		return NewEntities(client, table, EntitiesConfig{Shards: Shards{Write: shards}, Clock: clock})
	}
}

func TestEntities(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			storetest.Entities(t, func(t *testing.T) func(entity.Clock) (entity.Store, error) { return entitiesIn(t, shards) })
		})
	}
}

// The next change of an entity with a stamp of a wrong clock has the current time.
func TestClockFaults(t *testing.T) {
	t.Parallel()
	storetest.EntityClockFaults(t, func(t *testing.T) func(entity.Clock) (entity.Store, error) { return entitiesIn(t, 1) })
}

func TestRaces(t *testing.T) {
	t.Parallel()
	storetest.EntityRaces(t, func(t *testing.T) func(entity.Clock) (entity.Store, error) { return entitiesIn(t, 1) })
}

func TestWalks(t *testing.T) {
	t.Parallel()
	storetest.WalkEntities(t, func(t *testing.T) func(entity.Clock) (entity.Store, error) { return entitiesIn(t, 1) })
}

// callLog records calls and the units that they consume.
type callLog struct {
	*dynamodb.Client
	mu    sync.Mutex
	calls []string
}

func (l *callLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, fmt.Sprintf(format, args...))
}

// take returns the recorded calls and forgets them.
func (l *callLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

func (l *callLog) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := l.Client.UpdateItem(ctx, in, opts...)
	if err != nil {
		l.add("update refused")
		return out, err
	}
	l.add("update %g", *out.ConsumedCapacity.CapacityUnits)
	return out, err
}

func (l *callLog) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := l.Client.GetItem(ctx, in, opts...)
	if err == nil {
		l.add("get %g", *out.ConsumedCapacity.CapacityUnits)
	}
	return out, err
}

func (l *callLog) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := l.Client.BatchGetItem(ctx, in, opts...)
	if err == nil {
		l.add("batch get %g", *out.ConsumedCapacity[0].CapacityUnits)
	}
	return out, err
}

func (l *callLog) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := l.Client.Query(ctx, in, opts...)
	if err == nil {
		l.add("query, consistent %v, read %d", aws.ToBool(in.ConsistentRead), out.ScannedCount)
	}
	return out, err
}

// A write of less than 1 KB takes one write unit for the table and one for each index whose
// item changes, or two for an index in which the item's key changes.
func TestCallsAndUnitsOfEachMethod(t *testing.T) {
	t.Parallel()
	l := &callLog{Client: dynamolocal.Client(t)}
	s := openEntities(t, l, dynamolocal.Table(t, "EntitiesTable"))
	ctx, note := t.Context(), strings.Repeat("x", 700)
	create := func(id string) func() error {
		return func() error {
			_, _, err := entity.Create(ctx, s, "default", entity.Draft{ID: id, Type: "account", Attributes: record.Attributes(`{"note":"` + note + `"}`)})
			return err
		}
	}
	met := func(err error) error { // nil also for a condition that the entity does not meet
		if record.CodeOf(err) == record.Mismatch {
			return nil
		}
		return err
	}
	update := func(patch string, when *entity.Condition) func() error {
		return func() error {
			_, err := entity.Update(ctx, s, "default", "a", record.Attributes(patch), when)
			return met(err)
		}
	}
	revision := func(n int64) *entity.Condition { return &entity.Condition{Revision: n} }
	upsert := func(id string, d entity.Draft) func() error {
		return func() error {
			found, err := s.GetEach(ctx, "default", []string{id})
			if err != nil {
				return err
			}
			was := found[id]
			d.ID = id
			return entity.Upsert(ctx, s, "default", id, []entity.Draft{d}, &was).Errs[0]
		}
	}
	merged, discarded := entity.Draft{Attributes: record.Attributes(`{"b":2}`)}, entity.Draft{Deleted: true}
	replaced := entity.Draft{Type: "account", Attributes: record.Attributes(`{"c":null}`), Replace: true}
	remove := func(id string, when *entity.Condition) func() error {
		return func() error { return met(entity.Delete(ctx, s, "default", id, when)) }
	}
	at := noon
	erase := func(id string) func() error {
		return func() error {
			at = at.Add(time.Millisecond)
			_, _, err := s.Write(ctx, "default", entity.Erasure(id, record.TimeOf(at), time.Time{}))
			return err
		}
	}
	list := func(q entity.Query) func() error {
		return func() error { _, err := s.List(ctx, "default", q); return err }
	}
	for _, step := range []struct {
		name string
		call func() error
		want string
	}{
		{"create", create("a"), "update 3"},
		{"create again", create("a"), "update refused"},
		{"update", update(`{"b":1}`, nil), "get 1, update 4"},
		{"update without a change", update(`{"b":1}`, nil), "get 1"},
		{"update a revision", update(`{"b":3}`, revision(2)), "get 1, update 4"},
		{"update another revision", update(`{"b":4}`, revision(2)), "get 1"},
		{"upsert", upsert("a", merged), "batch get 1, update 4"},
		{"upsert without a change", upsert("a", merged), "batch get 1"},
		{"delete another revision", remove("a", revision(3)), "update refused"},
		{"delete a revision", remove("a", revision(4)), "update 4"},
		{"delete again", remove("a", nil), "update refused"},
		{"delete what never existed", remove("never", nil), "update refused"},
		{"delete nothing", remove("never", revision(0)), "get 1"},
		{"create again after a deletion", create("a"), "update 4"},
		{"delete", remove("a", nil), "update 4"},
		{"create over a tombstone", create("a"), "update 4"},
		{"replace", upsert("a", replaced), "batch get 1, update 4"},
		{"replace by the same", upsert("a", replaced), "batch get 1"},
		{"delete by an upsert", upsert("a", discarded), "batch get 1, update 4"},
		{"delete again by an upsert", upsert("a", discarded), "batch get 1"},
		{"delete what never existed by an upsert", upsert("never", discarded), "batch get 0"},
		{"replace a tombstone", upsert("a", replaced), "batch get 1, update 4"},
		{"erase", erase("a"), "update 4"},
		{"erase again", erase("a"), "update 3"},
		{"erase what never existed", erase("never"), "update 2"},
		{"create b", create("b"), "update 3"},
		{"create c", create("c"), "update 3"},
		{"create d", create("d"), "update 3"},
		{"list", list(entity.Query{Cursor: "a", Limit: 2}), "query, consistent false, read 3"},
		{"list a type", list(entity.Query{Type: "account", Cursor: "b", Limit: 1}), "query, consistent false, read 2"},
		{"list changes", func() error { _, err := s.Changes(ctx, "default", record.SyncQuery{Limit: 3}); return err }, "query, consistent false, read 4"},
	} {
		l.take()
		if err := step.call(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := strings.Join(l.take(), ", "); got != step.want {
			t.Errorf("%s: %s; want %s", step.name, got, step.want)
		}
	}
}
