package functions_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/child"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/erasurejob"
	"sluice/pkg/event"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// delete-entity and erasure-worker are killed within 20 ms of an erasure. Then nothing says that an
// entity is erased unless a job completes that, and nothing that was acknowledged is lost: neither
// an erasure nor what was created after it. ERASURE_KILLS is the number of kills, 10 by default;
// three of five hit delete-entity.
func TestKilledErasuresComplete(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("ERASURE_KILLS"), "10"))
	if err != nil || kills < 5 {
		t.Fatalf("ERASURE_KILLS=%q, want 5 or more", os.Getenv("ERASURE_KILLS"))
	}
	s := newErasing(t)
	requests := kills * 3 / 5
	for i := range requests {
		s.killRequest(t, i, killTime(i, requests))
	}
	last := s.request(t, s.create(t))
	warm := s.events(t)[last.id]
	s.work(t, s.worker(t), warm) // waits until the indexes have settled, so later runs do not wait
	of := s.events(t)
	killed := 0
	for round := 0; killed < kills-requests; round++ {
		for _, id := range s.ids() {
			if ev := of[id]; ev != nil && killed < kills-requests && !s.job(t, id).Status.Final() {
				s.killWorker(t, warm, ev, killTime(killed, kills-requests))
				killed++
			}
		}
		if round > kills {
			t.Fatal("no job is left to kill")
		}
	}
	worker := s.worker(t)
	for _, ev := range of {
		s.work(t, worker, ev) // Lambda delivers each change until a run has handled it
	}
	s.check(t)
	t.Logf("killed: %d requests at %v, %d runs at %v", requests, s.requests, killed, s.runs)
}

// killTime spreads kills evenly over 20 ms.
func killTime(i, n int) time.Duration {
	return 20 * time.Millisecond * time.Duration(i) / time.Duration(n-1)
}

const eventsEach = 5

// erasing is a service that erases entities.
type erasing struct {
	deployment
	entities *dynamo.Entities
	store    *dynamo.Events
	jobs     *dynamo.Jobs
	stream   *stream
	healthy  *lambdatest.Instance // of delete-entity
	all      []*erased
	requests map[string]int // number of killed requests by what they had done
	runs     map[string]int // likewise of runs
	changes  map[string]any
}

// erased is an entity with eventsEach events.
type erased struct {
	id           string
	acknowledged bool // whether a request got 202
	later        int  // number of events that were created after that
}

func newErasing(t *testing.T) *erasing {
	t.Helper()
	engine := dynamolocal.Shared(t)
	s := &erasing{deployment: deploy(t, engine.Endpoint), requests: make(map[string]int), runs: make(map[string]int), changes: make(map[string]any)}
	table := engine.Table(t, "ErasureJobsTable")
	s.env = append(s.env, "ERASURE_JOBS_TABLE="+table, "LIMIT_REQUESTS=900", "LIMIT_IMPORTS=900")
	var err, entitiesErr, eventsErr error
	s.jobs, err = dynamo.NewJobs(engine.Client(), erasurejob.Kind, table)
	s.entities, entitiesErr = dynamo.NewEntities(engine.Client(), s.deployment.entities, dynamo.EntitiesConfig{})
	s.store, eventsErr = dynamo.NewEvents(engine.Client(), s.deployment.events, dynamo.EventsConfig{})
	if err := errors.Join(err, entitiesErr, eventsErr); err != nil {
		t.Fatal(err)
	}
	s.stream = openStream(t, engine, table, "erasure-worker")
	s.healthy = s.start(t, "delete-entity", 1)[0]
	return s
}

func (s *erasing) create(t *testing.T) *erased {
	t.Helper()
	e := &erased{id: fmt.Sprintf("ada-%d", len(s.all))}
	s.all = append(s.all, e)
	if _, _, err := entity.Create(t.Context(), s.entities, "default", entity.Draft{ID: e.id}); err != nil {
		t.Fatal(err)
	}
	for n := range eventsEach {
		s.event(t, e, fmt.Sprintf("%s-%d", e.id, n))
	}
	return e
}

func (s *erasing) event(t *testing.T, e *erased, id string) {
	t.Helper()
	if _, _, err := event.Create(t.Context(), s.store, "default", event.Draft{ID: id, Name: "n", EntityID: e.id}); err != nil {
		t.Fatal(err)
	}
}

func erasureOf(id string) events.APIGatewayV2HTTPRequest {
	return lambdatest.Event("POST", "/delete_entity", "192.0.2.1", `{"id":"`+id+`","events":true}`)
}

// request erases an entity, and then creates an event.
func (s *erasing) request(t *testing.T, e *erased) *erased {
	t.Helper()
	invoke(t, s.healthy, erasureOf(e.id), http.StatusAccepted)
	s.acknowledge(t, e)
	return e
}

func (s *erasing) acknowledge(t *testing.T, e *erased) {
	t.Helper()
	e.acknowledged = true
	s.event(t, e, fmt.Sprintf("%s-later-%d", e.id, e.later))
	e.later++
}

// killRequest kills delete-entity at a time after it got a request for an erasure. The client then
// repeats every third request that had no response.
func (s *erasing) killRequest(t *testing.T, i int, at time.Duration) {
	t.Helper()
	e := s.create(t)
	instance := s.start(t, "delete-entity", 1)[0]
	invoke(t, instance, lambdatest.Event("POST", "/delete_entity", "192.0.2.1", `{"id":"nobody"}`), http.StatusOK) // opens connections
	if response, err := killAfter(t, instance, erasureOf(e.id), at); err == nil {
		var resp events.APIGatewayV2HTTPResponse
		if err := json.Unmarshal(response, &resp); err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%s", response)
		}
		s.acknowledge(t, e)
	}
	j, jobErr := s.jobs.Get(t.Context(), "default", e.id)
	found := s.change(t, e.id)
	hasJob := jobErr == nil
	if jobErr != nil && record.CodeOf(jobErr) != record.NotFound {
		t.Fatal(jobErr)
	}
	if found.Erased() && (!hasJob || found.ErasedAt != j.Until) || e.acknowledged && !found.Erased() {
		t.Errorf("%s: the job is %+v, error %v; the entity %+v; acknowledged: %v", e.id, j, jobErr, found, e.acknowledged)
	}
	switch {
	case e.acknowledged:
		s.requests["response"]++
	case found.Erased():
		s.requests["tombstone"]++
	case hasJob:
		s.requests["job"]++
	default:
		s.requests["nothing"]++
	}
	if !e.acknowledged && i%3 == 0 {
		s.request(t, e)
	}
}

// killAfter kills an instance at a time after it got an event, unless it responds before.
func killAfter(t *testing.T, instance *lambdatest.Instance, ev any, at time.Duration) ([]byte, error) {
	t.Helper()
	timer := time.AfterFunc(at, instance.Kill)
	defer timer.Stop()
	response, err := instance.Handle(t.Context(), ev, time.Minute)
	if err != nil && !errors.Is(err, child.ErrExited) {
		t.Fatal(err)
	}
	instance.Kill()
	return response, err
}

func (s *erasing) worker(t *testing.T) *lambdatest.Instance {
	t.Helper()
	return s.start(t, "erasure-worker", 1)[0]
}

func (s *erasing) work(t *testing.T, worker *lambdatest.Instance, ev any) {
	t.Helper()
	if _, err := worker.Handle(t.Context(), ev, workerTimeout); err != nil {
		t.Fatal(err)
	}
}

func (s *erasing) killWorker(t *testing.T, warm, ev any, at time.Duration) {
	t.Helper()
	instance := s.worker(t)
	s.work(t, instance, warm) // opens connections, and does nothing else
	_, err := killAfter(t, instance, ev, at)
	id := idIn(t, ev)
	state := fmt.Sprintf("%s, %d events left", s.job(t, id).Status, s.left(t, id))
	if err == nil {
		state = "ended"
	}
	s.runs[state]++
}

// events returns the changes that start the worker, by job.
func (s *erasing) events(t *testing.T) map[string]any {
	t.Helper()
	for s.stream.poll(t); len(s.stream.waiting) > 0; {
		ev := s.stream.next(t)
		s.changes[idIn(t, ev)] = ev
	}
	return s.changes
}

// idIn returns the id of the job in an event.
func idIn(t *testing.T, ev any) string {
	t.Helper()
	change := ev.(map[string]any)["Records"].([]any)[0].(map[string]any)["dynamodb"].(map[string]any)
	return change["Keys"].(map[string]any)["id"].(map[string]any)["S"].(string)
}

func (s *erasing) ids() (ids []string) {
	for _, e := range s.all {
		ids = append(ids, e.id)
	}
	return ids
}

func (s *erasing) job(t *testing.T, id string) job.Job {
	t.Helper()
	j, err := s.jobs.Get(t.Context(), "default", id)
	if err != nil && record.CodeOf(err) != record.NotFound {
		t.Fatal(err)
	}
	return j
}

func (s *erasing) change(t *testing.T, id string) entity.Change {
	t.Helper()
	found, err := s.entities.GetEach(t.Context(), "default", []string{id})
	if err != nil {
		t.Fatal(err)
	}
	return found[id]
}

func (s *erasing) left(t *testing.T, id string) int {
	t.Helper()
	page, err := s.store.List(t.Context(), "default", event.Query{EntityID: id, Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Records)
}

// check checks every entity after all jobs have had their run.
func (s *erasing) check(t *testing.T) {
	t.Helper()
	for _, e := range s.all {
		j, found, left := s.job(t, e.id), s.change(t, e.id), s.left(t, e.id)
		switch {
		case e.acknowledged && j.ID == "":
			t.Errorf("%s: the erasure was acknowledged, and has no job", e.id)
		case j.ID == "" && (!found.Live() || left != eventsEach):
			t.Errorf("%s: there is no job; the entity is %+v, and %d events are left", e.id, found, left)
		case j.ID != "" && (j.Status != job.Succeeded || found.Live() || found.ErasedAt != j.Until || left != e.later):
			t.Errorf("%s: the job is %+v, the entity %+v, and %d events are left, want %d", e.id, j, found, left, e.later)
		}
	}
}
