package functions_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// indexWorker runs the binary that builds indexes, as its schedule does.
type indexWorker struct {
	*lambdatest.Instance
	start        func() *lambdatest.Instance
	schedule     json.RawMessage
	declarations *dynamo.Indexes
}

// workFor invokes the worker so that it works for d.
func (w *indexWorker) workFor(t *testing.T, d time.Duration) {
	t.Helper()
	begun := time.Now()
	if _, err := w.Handle(t.Context(), w.schedule, 30*time.Second+d); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > d+15*time.Second {
		t.Errorf("a run of %s took %s", d, took)
	}
}

func (w *indexWorker) declared(t *testing.T, typ string) (d index.Declaration, ok bool) {
	t.Helper()
	all, err := w.declarations.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := index.NewSet(all).Of("default", typ)
	if len(of) == 0 {
		return d, false
	}
	return of[0], true
}

// takeUp lets the worker see the state of each declaration. A run shortly after does nothing. Then
// takeUp makes the wait end.
func (w *indexWorker) takeUp(t *testing.T) {
	t.Helper()
	w.workFor(t, time.Second)
	all, err := w.declarations.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.workFor(t, time.Second)
	for _, d := range all {
		if now, ok := w.declared(t, d.Type); !ok || now != d || d.Begun() || time.Since(d.Build.Seen.Time()) > time.Minute {
			t.Fatalf("%+v, want %+v to wait", now, d)
		}
		d.Build.Seen = record.TimeOf(d.Build.Seen.Time().Add(-index.TakeUp))
		if _, err := w.declarations.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// Runs that are killed, that run out of time and that complete build an index, with the permissions
// in template.yaml. In the end, it has every entity whose "n" is a number, each counted once. Then
// they remove it.
func TestTheIndexWorkerBuildsAndRemovesIndexes(t *testing.T) {
	t.Parallel()
	const entities, events = 3000, 150
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	client := dynamolocal.Client(t)
	store, err := dynamo.NewEntities(client, d.entities, dynamo.EntitiesConfig{})
	if err != nil {
		t.Fatal(err)
	}
	fillTables(t, store, d.events, entities, events)
	schedule, err := os.ReadFile("../events/index-worker.json")
	if err != nil {
		t.Fatal(err)
	}
	declarations, err := dynamo.NewIndexes(client, d.entities)
	if err != nil {
		t.Fatal(err)
	}
	w := &indexWorker{schedule: schedule, declarations: declarations, start: func() *lambdatest.Instance { return d.start(t, "index-worker", 1)[0] }}
	w.Instance = w.start()

	byNumber := index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "n", ValueType: index.Number}}, Rate: 2000}
	byName := index.EventNames("default")
	byName.Rate = 2000
	for _, declared := range []index.Declaration{byNumber, byName} {
		if _, err := index.Add(t.Context(), declarations, declared); err != nil {
			t.Fatal(err)
		}
	}
	w.takeUp(t)
	read := w.killTwice(t)
	w.workFor(t, 500*time.Millisecond)
	handedOver, _ := w.declared(t, "person")
	if handedOver.Build.Read <= read || handedOver.State != index.Building {
		t.Errorf("a run that had half a second left %+v", handedOver)
	}
	w.workUntil(t, func(all []index.Declaration) bool {
		return !slices.ContainsFunc(all, func(d index.Declaration) bool { return d.State != index.Ready })
	})
	ready, _ := w.declared(t, "person")
	if got, want := ready.Build, (index.Build{Expected: entities, Read: entities, Indexed: 2000, Absent: 500, Unfit: 500}); ready.State != index.Ready || got != want {
		t.Fatalf("%s %+v, want %+v", ready.State, got, want)
	}
	if found := countFound(t, store, ready); found != 2000 {
		t.Errorf("found %d entities, want 2000", found)
	}
	if names, _ := w.declared(t, ""); names.State != index.Ready || names.Build.Indexed != events {
		t.Errorf("the index of events is %+v", names)
	}

	for _, declared := range []index.Declaration{byNumber, byName} {
		if _, err := index.Remove(t.Context(), declarations, "default", declared.Type, declared.Fields.Names()...); err != nil {
			t.Fatal(err)
		}
	}
	w.takeUp(t)
	w.workUntil(t, func(all []index.Declaration) bool { return len(all) == 0 })
	if found := countFound(t, store, ready); found != 0 {
		t.Errorf("%d entities have keys of the index that was removed", found)
	}
	checkGrants(t, "index-worker", proxy, nil)
}

// workUntil lets runs work for a minute each, as the schedule does, until done accepts the declarations.
// A busy machine needs several.
func (w *indexWorker) workUntil(t *testing.T, done func([]index.Declaration) bool) {
	t.Helper()
	for range 5 {
		w.workFor(t, time.Minute)
		all, err := w.declarations.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if done(all) {
			return
		}
	}
	t.Error("five runs were not enough")
}

// killTwice kills a run as soon as it has made progress, and another.
func (w *indexWorker) killTwice(t *testing.T) (read int64) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for range 2 {
		ended := make(chan error, 1)
		go func(i *lambdatest.Instance) {
			_, err := i.Handle(t.Context(), w.schedule, 2*time.Minute)
			ended <- err
		}(w.Instance)
		for was := read; read == was; <-again.C {
			d, _ := w.declared(t, "person")
			read = d.Build.Read
		}
		w.Kill()
		if err := <-ended; err == nil {
			t.Fatal("the run ended before it was killed")
		}
		w.Instance = w.start()
	}
	return read
}

// fillTables stores people and events. Of every six people, four have a number in the attribute "n",
// one has a string there, and one lacks the attribute.
func fillTables(t *testing.T, store *dynamo.Entities, eventsTable string, people, events int) {
	t.Helper()
	log, err := dynamo.NewEvents(dynamolocal.Client(t), eventsTable, dynamo.EventsConfig{Indexes: new(index.Current)})
	if err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range people {
		attributes := fmt.Sprintf(`{"n":%d}`, i)
		switch i % 6 {
		case 4:
			attributes = `{"n":"four"}`
		case 5:
			attributes = `{}`
		}
		d := entity.Draft{ID: fmt.Sprintf("e%05d", i), Type: "person", Attributes: record.Attributes(attributes)}
		group.Go(func() error {
			_, _, err := entity.Create(ctx, store, "default", d)
			return err
		})
	}
	for i := range events {
		group.Go(func() error {
			_, _, err := event.Create(ctx, log, "default", event.Draft{ID: fmt.Sprintf("v%05d", i), Name: "paid", Attributes: record.Attributes(`{}`)})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func countFound(t *testing.T, store *dynamo.Entities, declared index.Declaration) (found int) {
	t.Helper()
	q := index.Query{Declaration: declared, Limit: 200}
	if err := q.Where(index.Condition{Attribute: "n", Operator: index.GreaterOrEqual, Value: "0"}); err != nil {
		t.Fatal(err)
	}
	for {
		page, err := store.Find(t.Context(), "default", q)
		if err != nil {
			t.Fatal(err)
		}
		found += len(page.Records)
		if q.Cursor = page.Next; q.Cursor == "" {
			return found
		}
	}
}
