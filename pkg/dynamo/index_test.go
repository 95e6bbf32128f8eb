package dynamo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
	"sluice/pkg/snapshot"
	"sluice/pkg/storetest"
)

func openIndexes(t *testing.T, client IndexesClient, table string) *Indexes {
	t.Helper()
	s, err := NewIndexes(client, table)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A random sequence takes a second on DynamoDB Local, so fewer sequences run by default than
// in other packages.
func init() {
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
}

func TestIndexes(t *testing.T) {
	storetest.Indexes(t, func(t *testing.T) index.Store {
		return openIndexes(t, dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable"))
	})
}

// Every first attempt conflicts with the transaction of another process's Add.
func TestAWriteOfADeclarationIsRepeated(t *testing.T) {
	t.Parallel()
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	tries := 0
	proxy.SetFault(func(dynamoproxy.Call) dynamoproxy.Fault {
		if tries++; tries%2 == 1 {
			return dynamoproxy.Fault{Skip: true, Error: dynamoproxy.Conflict}
		}
		return dynamoproxy.Fault{}
	})
	s := openIndexes(t, dynamolocal.Client(t, func(o *dynamodb.Options) { o.BaseEndpoint = &proxy.URL }), dynamolocal.Table(t, "EntitiesTable"))
	d, err := s.Put(t.Context(), index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, State: index.Building, Place: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), d); err != nil {
		t.Error(err)
	}
}

func TestFindEntities(t *testing.T) {
	t.Parallel()
	storetest.FindEntities(t, func(t *testing.T, indexed *index.Current) storetest.IndexedEntities {
		s, err := NewEntities(dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable"), EntitiesConfig{Indexes: indexed})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestFindEvents(t *testing.T) {
	t.Parallel()
	storetest.FindEvents(t, func(t *testing.T, indexed *index.Current) (event.Store, index.Keeper) {
		client := dynamolocal.Client(t)
		s, err := NewEvents(client, dynamolocal.Table(t, "EventsTable"), EventsConfig{Shards: Shards{Write: 2}, Indexes: indexed})
		if err != nil {
			t.Fatal(err)
		}
		return s, NewEventKeys(client, s)
	})
}

// testClock is atomic, because background refreshes read it while tests set it.
type testClock struct{ atomic.Pointer[time.Time] }

func newTestClock() *testClock {
	c, now := new(testClock), time.Now()
	c.Store(&now)
	return c
}

func (c *testClock) now() time.Time { return *c.Load() }

func (c *testClock) pass(d time.Duration) {
	now := c.now().Add(d)
	c.Store(&now)
}

// instance models a function instance whose copy of the declarations may be out of date.
type instance struct {
	*Entities
	indexes *index.Cache
}

// Two instances write entities while an index is being built or removed, and their copies of
// the declarations differ in age. Whenever the index is ready, it contains every entity.
func TestWritersWhoseDeclarationsDifferInAge(t *testing.T) {
	t.Parallel()
	client := dynamolocal.Client(t)
	table := dynamolocal.Table(t, "EntitiesTable")
	declarations := openIndexes(t, client, table)
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		checks++
		w := newWriters(rt, client, table, declarations, fmt.Sprintf("writers-%d", checks))
		rt.Repeat(map[string]func(*rapid.T){
			"write": w.write, "write more": w.write,
			"wait": w.wait,
			"work": w.work, "work more": w.work, "work most": w.work,
			"": w.find,
		})
	})
}

// writers models two instances, the worker that builds and removes an index, and the clock.
type writers struct {
	workspace string
	*testClock
	instances    []instance
	declarations *Indexes
	declared     index.Declaration // zero if the attribute is not indexed
	written      int
	values       map[string]string // by id
}

func newWriters(rt *rapid.T, client *dynamodb.Client, table string, declarations *Indexes, workspace string) *writers {
	w := &writers{workspace: workspace, testClock: newTestClock(), declarations: declarations, values: make(map[string]string)}
	for range 2 {
		indexes, err := index.NewCache(declarations, snapshot.Config{Now: w.now})
		if err != nil {
			rt.Fatal(err)
		}
		s, err := NewEntities(client, table, EntitiesConfig{Indexes: indexes, Clock: entity.Clock{Now: w.now}})
		if err != nil {
			rt.Fatal(err)
		}
		w.instances = append(w.instances, instance{s, indexes})
		w.wait(rt)
	}
	return w
}

func (w *writers) wait(rt *rapid.T) {
	w.pass(time.Duration(rapid.SampledFrom([]int{1, 29, 44}).Draw(rt, "seconds")) * time.Second)
}

func (w *writers) write(rt *rapid.T) {
	on := w.instances[rapid.IntRange(0, 1).Draw(rt, "instance")]
	id := rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "id")
	w.written++
	value := fmt.Sprint(w.written)
	typ := rapid.SampledFrom([]string{"person", "person", "person", "robot"}).Draw(rt, "type")
	value = `{"email":"` + value + `"}`
	d := entity.Draft{ID: id, Type: typ, Attributes: record.Attributes(value)}
	if err := entity.Upsert(rt.Context(), on, w.workspace, id, []entity.Draft{d}, nil).Errs[0]; err != nil {
		rt.Fatal(err)
	}
	if w.values[id] = value; typ != "person" {
		delete(w.values, id)
	}
}

// work adds or removes the index, or lets the worker take its next step.
func (w *writers) work(rt *rapid.T) {
	ctx, stop := context.WithCancel(rt.Context())
	defer stop()
	var err error
	switch w.declared.State {
	case "":
		_, err = index.Add(ctx, w.declarations, index.Declaration{Workspace: w.workspace, Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}})
	case index.Ready:
		_, err = index.Remove(ctx, w.declarations, w.workspace, "person", "email")
	default: // the clocks of these instances agree, so nothing has to wait for SyncLag
		err = index.NewBuilder(oneStep{w.declarations, w.workspace, stop}, w.instances[0], index.BuilderConfig{TakeUp: index.TakeUp - record.SyncLag, Now: w.now}).Work(ctx)
	}
	if err != nil {
		rt.Fatal(err)
	}
	all, err := w.declarations.List(rt.Context())
	if err != nil {
		rt.Fatal(err)
	}
	w.declared = index.Declaration{}
	for _, d := range all {
		if d.Workspace == w.workspace {
			w.declared = d
		}
	}
}

// oneStep is a Store of one workspace. It stops its user after the first write.
type oneStep struct {
	*Indexes
	workspace string
	stop      func()
}

func (s oneStep) List(ctx context.Context) ([]index.Declaration, error) {
	all, err := s.Indexes.List(ctx)
	return index.NewSet(all).In(s.workspace), err
}

func (s oneStep) Put(ctx context.Context, d index.Declaration) (index.Declaration, error) {
	defer s.stop()
	return s.Indexes.Put(ctx, d)
}

func (s oneStep) Remove(ctx context.Context, d index.Declaration) error {
	defer s.stop()
	return s.Indexes.Remove(ctx, d)
}

func (w *writers) find(rt *rapid.T) {
	if w.declared.State != index.Ready {
		return
	}
	q := index.Query{Declaration: w.declared, Limit: 10}
	if err := q.Where(index.Condition{Attribute: "email", Operator: index.Prefix}); err != nil {
		rt.Fatal(err)
	}
	page, err := w.instances[0].Find(rt.Context(), w.workspace, q)
	if err != nil {
		rt.Fatal(err)
	}
	got := make(map[string]string)
	for _, e := range page.Records {
		got[e.ID] = string(e.Attributes)
	}
	if !maps.Equal(got, w.values) {
		rt.Fatalf("%q, want %q", got, w.values)
	}
}

type unreadable struct {
	index.Store
	down atomic.Bool
}

func (u *unreadable) List(ctx context.Context) ([]index.Declaration, error) {
	if u.down.Load() {
		return nil, errors.New("down")
	}
	return u.Store.List(ctx)
}

// Without the declarations, an instance could store an entity that the indexes lack. A
// deletion does not need the declarations, because it only removes keys.
func TestWritesNeedTheDeclarations(t *testing.T) {
	t.Parallel()
	client, table := dynamolocal.Client(t), dynamolocal.Table(t, "EntitiesTable")
	clock := newTestClock()
	u := &unreadable{Store: openIndexes(t, client, table)}
	indexes, err := index.NewCache(u, snapshot.Config{Now: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewEntities(client, table, EntitiesConfig{Indexes: indexes, Clock: entity.Clock{Now: clock.now}})
	if err != nil {
		t.Fatal(err)
	}
	create := func(id string) error {
		_, _, err := entity.Create(t.Context(), s, "default", entity.Draft{ID: id})
		return err
	}
	if err := create("a"); err != nil {
		t.Fatal(err)
	}
	u.down.Store(true)
	clock.pass(snapshot.MaxAge - time.Millisecond)
	if err := create("b"); err != nil {
		t.Errorf("with a copy that is young enough: %v", err)
	}
	clock.pass(time.Millisecond)
	if err := create("c"); record.CodeOf(err) != record.Unavailable {
		t.Errorf("with a copy that is too old: %v", err)
	}
	if err := entity.Delete(t.Context(), s, "default", "a", nil); err != nil {
		t.Errorf("delete: %v", err)
	}
	u.down.Store(false)
	clock.pass(time.Minute)
	if err := create("d"); err != nil {
		t.Errorf("after the copy was read again: %v", err)
	}
	page, err := s.List(t.Context(), "default", entity.Query{Limit: 10})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("%+v, %v", page.Records, err)
	}
}

// unreadablePage is a client whose queries return a page that ends with an unreadable item.
type unreadablePage struct {
	EntitiesClient
	updates atomic.Int64
}

func (c *unreadablePage) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	const at = "2026-01-02T12:00:00.000Z"
	good := attributeValues{"id": text("a"), "type": text("person"), "created_at": text(at), "change": text(at + "#a"), "attributes": text(`{"email":"a"}`)}
	return &dynamodb.QueryOutput{Items: []attributeValues{good, {"id": number(1)}}}, nil
}

func (c *unreadablePage) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.updates.Add(1)
	return new(dynamodb.UpdateItemOutput), nil
}

// If an item cannot be read, the build writes nothing and leaves no goroutine running.
func TestABuildStopsAtAnUnreadableItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := new(unreadablePage)
		s, err := NewEntities(client, "entities", EntitiesConfig{})
		if err != nil {
			t.Fatal(err)
		}
		d := index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}}, Place: 1, State: index.Building}
		if _, err := s.BuildKeys(t.Context(), d, "", 10); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		if n := client.updates.Load(); n > 0 {
			t.Errorf("%d updates", n)
		}
	})
}
