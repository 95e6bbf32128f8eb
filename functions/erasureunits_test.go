package functions_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/event"
)

// An erasure costs a few calls, and four write units for each event. Each entry is an operation, its
// table, and the number of calls and units.
// docs/erasure.md has these figures.
func TestUnitsOfAnErasure(t *testing.T) {
	t.Parallel()
	const events = 100
	engine := dynamolocal.Shared(t)
	proxy := dynamoproxy.Start(t, engine.Endpoint)
	d := deployOn(t, engine, proxy.URL)
	table := engine.Table(t, "ErasureJobsTable")
	d.env = append(d.env, "ERASURE_JOBS_TABLE="+table)
	queue := openStream(t, engine, table, "erasure-worker")
	nth := eventsOf(200) // of about 450 bytes
	importEvents(t, engine.Client(), d.events, 1, events, func(i int) event.Event {
		e := nth(i)
		e.EntityID = "ada"
		return e
	})
	invoke(t, d.start(t, "create-entity", 1)[0], lambdatest.Event("POST", "/create_entity", "192.0.2.1", `{"id":"ada","attributes":{"n":1}}`), http.StatusCreated)
	request, worker := d.start(t, "delete-entity", 1)[0], d.start(t, "erasure-worker", 1)[0]
	names := map[string]string{d.entities: "entities", d.events: "events", table: "jobs"}
	units := func(do func()) string {
		before := proxy.Usage()
		do()
		after := proxy.Usage()
		var all []string
		for _, call := range slices.Collect(maps.Keys(after)) {
			if calls := after[call].Calls - before[call].Calls; calls > 0 && names[call.Table] != "" {
				all = append(all, fmt.Sprintf("%s of %s %d %g", call.Operation, names[call.Table], calls, after[call].Units-before[call].Units))
			}
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	for _, step := range []struct{ id, request, run string }{
		{
			id: "ada", request: "GetItem of jobs 1 1, PutItem of jobs 1 2, UpdateItem of entities 1 4",
			run: "DeleteItem of events 100 400, GetItem of entities 1 1, GetItem of jobs 1 1, PutItem of jobs 3 7, Query of events 2 7",
		},
		{
			id: "ada", request: "GetItem of jobs 1 1, PutItem of jobs 1 3, UpdateItem of entities 1 3", // the job has ended
			run: "GetItem of entities 1 1, GetItem of jobs 1 1, PutItem of jobs 2 6, Query of events 1 0",
		},
		{
			id: "nobody", request: "GetItem of jobs 1 1, PutItem of jobs 1 2, UpdateItem of entities 1 2",
			run: "GetItem of entities 1 1, GetItem of jobs 1 1, PutItem of jobs 2 6, Query of events 1 0",
		},
	} {
		got := units(func() {
			invoke(t, request, lambdatest.Event("POST", "/delete_entity", "192.0.2.1", `{"id":"`+step.id+`","events":true}`), http.StatusAccepted)
		})
		if got != step.request {
			t.Errorf("the request for %s: %s, want %s", step.id, got, step.request)
		}
		ev := queue.next(t)
		got = units(func() {
			if _, err := worker.Handle(t.Context(), ev, workerTimeout); err != nil {
				t.Fatal(err)
			}
		})
		if got != step.run {
			t.Errorf("the run for %s: %s, want %s", step.id, got, step.run)
		}
	}
}
